#include "base/counts.h"

#include <fmt/format.h>

namespace strata {

std::string grouped(std::int64_t count) {
  const std::string digits = fmt::format("{}", count);
  const std::size_t first = count < 0 ? 1 : 0;
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string rounded_count(std::int64_t count) {
  struct Word {
    double value;
    const char* name;
  };
  constexpr Word kWords[] = {{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}};
  for (const Word& word : kWords) {
    const double value = static_cast<double>(count) / word.value;
    if (value < 0.9995) continue;
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, word.name);
  }
  return grouped(count);
}

}  // namespace strata
