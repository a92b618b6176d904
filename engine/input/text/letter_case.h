// Letters' cases and kinds of characters as Python's str has them, by ICU's tables: what templates of chats
// ask of text. Plain functions; safe from any thread.
#pragma once

#include <string>
#include <string_view>

namespace strata::text {

/// The following return what str.lower(), upper(), title() and capitalize() return. REQUIRES: valid UTF-8.
std::string lower_case(std::string_view text);
std::string upper_case(std::string_view text);
std::string title_case(std::string_view text);
std::string capitalized(std::string_view text);

/// What str.isprintable() says of a character.
bool is_printable(char32_t c);
bool is_letter(char32_t c);
/// Nd.
bool is_decimal_digit(char32_t c);
/// A decimal digit, or one like ² that is no part of a decimal number.
bool is_digit(char32_t c);
/// A character of any numeric value, Chinese numbers among them.
bool has_number(char32_t c);
bool is_lower_case(char32_t c);
bool is_upper_case(char32_t c);
/// Whether it is one letter that looks like two and has only the first of them in upper case, such as ǅ.
bool is_title_case(char32_t c);

}  // namespace strata::text
