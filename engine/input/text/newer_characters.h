// Characters that the original knows and Debian 12's ICU, which has Unicode 15.0, does not: those of 15.1 and
// 16, and a few of 17. Plain functions; with a newer ICU they say nothing new.
#pragma once

#include <span>
#include <string_view>

namespace strata::text {

struct CharacterRange {
  char32_t first, last;
  std::string_view category;  ///< general category; where it is sure to be one of several, their first letter
};

/// The letters, marks, digits, punctuation and symbols of Unicode 15.1 and 16, in order.
std::span<const CharacterRange> newer_characters();

bool is_newer_numeric(char32_t c);
/// Letters, marks and digits of 15.1 and 16.
bool is_newer_word(char32_t c);
/// `c` itself if it is no newer capital.
char32_t newer_lower_case(char32_t c);

}  // namespace strata::text
