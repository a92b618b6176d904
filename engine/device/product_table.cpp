#include "engine/device/product_table.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"

namespace strata {
namespace {

constexpr std::string_view kTitle = "strata products 1: ";

/// Behind its check sum.
std::string entry_text(const std::string& product, const std::string& algorithm) {
  return fmt::format("{} {}", algorithm, product);
}

/// Takes what stands before the next `end`; all if there is none.
std::string_view take(std::string_view& text, char end) {
  const std::size_t length = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return taken;
}

}  // namespace

const std::string* ProductTable::find(const std::string& product) const {
  const auto found = algorithms.find(product);
  return found == algorithms.end() ? nullptr : &found->second;
}

void ProductTable::add(const ProductTable& other) {
  algorithms.insert(other.algorithms.begin(), other.algorithms.end());
}

std::string print(const ProductTable& table) {
  std::string text = fmt::format("{}{}\n", kTitle, table.algorithms.size());
  for (const auto& [product, algorithm] : table.algorithms) {
    const std::string entry = entry_text(product, algorithm);
    text += fmt::format("{} {}\n", hex(hash_text(entry)), entry);
  }
  return text;
}

ProductTable parse_product_table(std::string_view text) {
  std::string_view rest = text;
  const std::string_view title = take(rest, '\n');
  if (!title.starts_with(kTitle)) throw DamageError("it does not begin as a table of products");
  ProductTable table;
  for (int line = 2; !rest.empty(); ++line) {
    std::string_view entry = take(rest, '\n');
    const std::string_view check = take(entry, ' ');
    if (check != hex(hash_text(entry)))
      throw DamageError(fmt::format("line {} is not what was written there", line));
    const std::string_view algorithm = take(entry, ' ');
    table.algorithms.emplace(entry, algorithm);
  }
  if (title.substr(kTitle.size()) != fmt::format("{}", table.algorithms.size()))
    throw DamageError(
        fmt::format("it has {} products and not as many as its first line says", table.algorithms.size()));
  return table;
}

std::string hash_of(const ProductTable& table) {
  return hex(hash_text(print(table)));
}

}  // namespace strata
