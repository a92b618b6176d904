// What characters are and how text is normalized, by ICU's tables. Each function is what one function of the
// Rust standard library, or of a crate, is to the original. Plain functions; safe from any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace strata::text {

/// White_Space, as char::is_whitespace has it.
bool is_whitespace(char32_t c);
/// Nd, Nl or No, as char::is_numeric has it.
bool is_numeric(char32_t c);
/// ASCII's punctuation, symbols like $ and + among it, and the categories P*.
bool is_punctuation(char32_t c);
/// Control characters, formats and those of private use.
bool is_control(char32_t c);
/// Mn.
bool is_nonspacing_mark(char32_t c);
/// Mn, Mc or Me.
bool is_combining_mark(char32_t c);
/// \w of the crate regex: Unicode's technical standard 18, annex C.
bool is_word(char32_t c);

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// The text in the given form. REQUIRES: valid UTF-8.
void normalize_text(std::string& text, NormalForm form);

/// Each character by itself in lower case, as char::to_lowercase has it: one may become several.
void append_lower_case(std::string& text, char32_t c);

/// Calls `use` with each grapheme cluster, in order. REQUIRES: valid UTF-8.
void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& use);

}  // namespace strata::text
