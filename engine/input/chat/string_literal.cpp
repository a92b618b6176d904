#include "engine/input/chat/string_literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/input/chat/problem.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

/// The number of `count` digits behind an escape's letter.
char32_t escaped_number(std::string_view digits, std::size_t count, int base, int line) {
  digits = digits.substr(0, count);
  std::uint32_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  const bool is_whole = read.ptr == digits.data() + digits.size() && digits.size() == count;
  if (!is_whole || number > 0x10ffff || (number >= 0xd800 && number < 0xe000))
    throw Problem("this escape in a text is no character", line);
  return number;
}

}  // namespace

std::string unescaped(std::string_view quoted, int line) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
  std::string text;
  for (std::size_t at = 0; at < quoted.size(); ++at) {
    if (quoted[at] != '\\' || at + 1 == quoted.size()) {
      text += quoted[at];
      continue;
    }
    const char letter = quoted[++at];
    const std::string_view behind = quoted.substr(at + 1);
    const std::size_t known = kLetters.find(letter);
    if (letter == '\n') continue;
    if (known != std::string_view::npos) {
      text += kMeanings[known];
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      text::append_character(text, escaped_number(behind, digits, 16, line));
      at += digits;
    } else if ('0' <= letter && letter <= '7') {
      std::size_t digits = 1;
      while (digits < 3 && digits <= behind.size() && '0' <= behind[digits - 1] && behind[digits - 1] <= '7')
        ++digits;
      text::append_character(text, escaped_number(quoted.substr(at), digits, 8, line));
      at += digits - 1;
    } else if (letter == 'N') {
      throw Problem("escapes with names of characters are not supported", line);
    } else {
      text.append({'\\', letter});
    }
  }
  return text;
}

}  // namespace strata::chat
