#include "engine/input/text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace strata::text {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// The range that the second byte of a character must lie in (Unicode standard, table 3-7); an empty one if
/// nothing begins with `first`.
struct SecondByte {
  unsigned low, high;
};
SecondByte second_byte(unsigned first) {
  if (first < 0xc2 || first > 0xf4) return {1, 0};
  if (first == 0xe0) return {0xa0, 0xbf};
  if (first == 0xed) return {0x80, 0x9f};
  if (first == 0xf0) return {0x90, 0xbf};
  if (first == 0xf4) return {0x80, 0x8f};
  return {0x80, 0xbf};
}

struct Beginning {
  std::size_t bytes;  ///< of a character, or of the longest beginning of one
  bool is_whole;
};
Beginning read_character(std::string_view text, std::size_t begin) {
  const unsigned first = byte_at(text, begin);
  if (first < 0x80) return {1, true};
  const SecondByte second = second_byte(first);
  if (second.low > second.high) return {1, false};
  const std::size_t wanted = character_bytes(text[begin]);
  std::size_t bytes = 1;
  while (bytes < wanted && begin + bytes < text.size()) {
    const unsigned next = byte_at(text, begin + bytes);
    const bool fits = bytes == 1 ? next >= second.low && next <= second.high : next >= 0x80 && next <= 0xbf;
    if (!fits) break;
    ++bytes;
  }
  return {bytes, bytes == wanted};
}

}  // namespace

char32_t code_point_at(std::string_view text, std::size_t begin) {
  const char32_t first = byte_at(text, begin);
  if (first < 0x80) return first;
  const auto more = [&](std::size_t i) { return static_cast<char32_t>(byte_at(text, begin + i) & 0x3f); };
  if (first < 0xe0) return (first & 0x1f) << 6 | more(1);
  if (first < 0xf0) return (first & 0x0f) << 12 | more(1) << 6 | more(2);
  return (first & 0x07) << 18 | more(1) << 12 | more(2) << 6 | more(3);
}

std::size_t character_before(std::string_view text, std::size_t end) {
  do --end;
  while ((byte_at(text, end) & 0xc0) == 0x80);
  return end;
}

void append_character(std::string& text, char32_t c) {
  const auto push = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return push(c);
  if (c < 0x800) {
    push(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      push(0xe0 | c >> 12);
    } else {
      push(0xf0 | c >> 18);
      push(0x80 | (c >> 12 & 0x3f));
    }
    push(0x80 | (c >> 6 & 0x3f));
  }
  push(0x80 | (c & 0x3f));
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

bool is_ascii(std::string_view text) {
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080u) != 0) return false;
  }
  for (; i < text.size(); ++i)
    if (byte_at(text, i) >= 0x80) return false;
  return true;
}

std::string_view make_valid(std::string_view text, std::string& buffer) {
  if (is_ascii(text)) return text;
  std::size_t copied = 0;
  buffer.clear();
  for (std::size_t i = 0; i < text.size();) {
    const Beginning found = read_character(text, i);
    if (!found.is_whole) {
      buffer.append(text.substr(copied, i - copied)).append("\xef\xbf\xbd");
      copied = i + found.bytes;
    }
    i += found.bytes;
  }
  if (copied == 0) return text;  // the first thing that is replaced has a byte at least
  return buffer.append(text.substr(copied));
}

}  // namespace strata::text
