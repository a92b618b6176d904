// Text as code points. Everything behind the tokenizer's front door is valid UTF-8, so only make_valid()
// looks at bytes that may be anything. Plain functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata::text {

/// The bytes of the character that begins with this byte. REQUIRES: the byte begins one.
constexpr std::size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// The code point at `begin`. REQUIRES: valid UTF-8, begin < text.size().
char32_t code_point_at(std::string_view text, std::size_t begin);

/// Where the character that ends at `end` begins. REQUIRES: valid UTF-8, 0 < end <= text.size().
std::size_t character_before(std::string_view text, std::size_t end);

/// REQUIRES: a code point that is no surrogate.
void append_character(std::string& text, char32_t code_point);

/// How many code points the text has. REQUIRES: valid UTF-8.
std::size_t count_characters(std::string_view text);

bool is_ascii(std::string_view text);

/// `text` itself if it is valid UTF-8. Else `buffer`, with the text in it, and U+FFFD in place of each
/// longest beginning of a character that is not completed. Python's errors='replace' and the Unicode standard
/// (section 3.9) do the same.
std::string_view make_valid(std::string_view text, std::string& buffer);

/// Calls `use(code_point, begin, end)` for each character. REQUIRES: valid UTF-8.
template <typename Use>
void for_each_character(std::string_view text, const Use& use) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = begin + character_bytes(text[begin]);
    use(code_point_at(text, begin), begin, end);
    begin = end;
  }
}

}  // namespace strata::text
