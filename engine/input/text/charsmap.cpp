#include "engine/input/text/charsmap.h"

#include <array>
#include <bit>
#include <cstring>

#include "engine/input/text/bounds.h"
#include "engine/input/text/unicode.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

/// Longer grapheme clusters are replaced character by character.
constexpr std::size_t kWholeGraphemeBytes = 6;

std::string decode_base64(const JsonField& field) {
  const std::string text = field.text();
  const std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    values[static_cast<unsigned char>(alphabet[i])] = static_cast<int>(i);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  const std::size_t end = text.find_last_not_of('=') + 1;  // npos + 1 is 0
  for (std::size_t i = 0; i < end; ++i) {
    const int value = values[static_cast<unsigned char>(text[i])];
    if (value < 0) field.refuse("this is not base64");
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) bytes.push_back(static_cast<char>(bits >> (count -= 8) & 0xff));
  }
  return bytes;
}

/// The bits of a unit of darts-clone's double array (darts.h, DoubleArrayUnit).
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
std::uint32_t leaf_value(std::uint32_t unit) {
  return unit & 0x7fffffff;
}
std::uint32_t unit_label(std::uint32_t unit) {
  return unit & 0x800000ff;
}
std::uint32_t unit_offset(std::uint32_t unit) {
  return unit >> 10 << ((unit & 0x200) >> 6);
}

}  // namespace

Charsmap::Charsmap(const JsonField& field) {
  static_assert(std::endian::native == std::endian::little);  // as the file is
  const std::string bytes = decode_base64(field);
  std::uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof(trie_bytes)) field.refuse("these rules end before they begin");
  std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - sizeof(trie_bytes)) {
    field.refuse("the size of the rules' trie is wrong");
  }
  trie_.resize(trie_bytes / 4);
  std::memcpy(trie_.data(), bytes.data() + sizeof(trie_bytes), trie_bytes);
  replacements_ = bytes.substr(sizeof(trie_bytes) + trie_bytes);
  std::string buffer;
  if (make_valid(replacements_, buffer).data() != replacements_.data())
    field.refuse("what replaces is not UTF-8");
}

std::optional<std::string_view> Charsmap::replacement(std::string_view chunk) const {
  std::uint32_t node = unit_offset(trie_[0]);
  for (const char byte : chunk) {
    const auto step = static_cast<unsigned char>(byte);
    if (step == 0) return std::nullopt;
    node ^= step;
    if (node >= trie_.size() || unit_label(trie_[node]) != step) return std::nullopt;
    const std::uint32_t unit = trie_[node];
    node ^= unit_offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= trie_.size()) return std::nullopt;
    const std::uint32_t begin = leaf_value(trie_[node]);
    const bool is_inside_character = begin < replacements_.size() && (replacements_[begin] & 0xc0) == 0x80;
    if (begin > replacements_.size() || is_inside_character) return std::nullopt;
    const std::string_view rest = std::string_view(replacements_).substr(begin);
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

void Charsmap::append_normalized(std::string_view text, std::string& out, std::size_t most_bytes) const {
  const auto append = [&](std::string_view part) {
    check_growth(out.size() + part.size(), most_bytes);
    out.append(part);
  };
  const auto append_each = [&](std::string_view part) {
    for_each_character(part, [&](char32_t, std::size_t begin, std::size_t end) {
      const std::string_view character = part.substr(begin, end - begin);
      append(replacement(character).value_or(character));
    });
  };
  // A grapheme of ASCII is one character, but for a line's end of two.
  if (is_ascii(text) && text.find('\r') == std::string_view::npos) return append_each(text);
  for_each_grapheme(text, [&](std::string_view grapheme) {
    if (grapheme.size() < kWholeGraphemeBytes) {
      if (const auto whole = replacement(grapheme)) {
        append(*whole);
        return;
      }
    }
    append_each(grapheme);
  });
}

}  // namespace strata::text
