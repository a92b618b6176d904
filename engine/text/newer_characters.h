// Characters of Unicode 15.1 to 17 that the original knows and Debian 12's ICU, which has 15.0, does not.
// Plain functions; with a newer ICU they say nothing new.
#pragma once

namespace strata {

bool is_newer_numeric(char32_t c);
/// Letters, marks and digits of 15.1 and 16.
bool is_newer_word(char32_t c);
/// `c` itself if it is no newer capital.
char32_t newer_lower_case(char32_t c);

}  // namespace strata
