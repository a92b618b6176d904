#include "engine/input/text/letter_case.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

icu::UnicodeString unicode(std::string_view text) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())));
}

std::string utf8(const icu::UnicodeString& text) {
  std::string bytes;
  text.toUTF8String(bytes);
  return bytes;
}

/// The text with its letters from `first` on, an alphabet of 26, in the other case.
std::string with_other_case(std::string_view ascii, char first) {
  std::string changed(ascii);
  for (char& c : changed)
    if (first <= c && c < first + 26) c = static_cast<char>(c ^ 0x20);
  return changed;
}

/// The first character in title case, the others in lower case.
std::string title_of_word(std::string_view word) {
  const std::size_t first_bytes = character_bytes(word[0]);
  const std::string_view first = word.substr(0, first_bytes);
  std::string title = utf8(unicode(first).toTitle(nullptr, icu::Locale::getRoot()));
  return title.append(lower_case(word).substr(lower_case(first).size()));
}

bool is_cased(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED);
}

}  // namespace

std::string lower_case(std::string_view text) {
  return is_ascii(text) ? with_other_case(text, 'A') : utf8(unicode(text).toLower(icu::Locale::getRoot()));
}

std::string upper_case(std::string_view text) {
  return is_ascii(text) ? with_other_case(text, 'a') : utf8(unicode(text).toUpper(icu::Locale::getRoot()));
}

std::string title_case(std::string_view text) {
  std::string title;
  std::size_t word = text.size();  // where the cased letters begin that end here, if any do
  const auto end_word = [&](std::size_t end) {
    if (word < end) title += title_of_word(text.substr(word, end - word));
    word = text.size();
  };
  for_each_character(text, [&](char32_t c, std::size_t begin, std::size_t end) {
    if (is_cased(c)) {
      if (word == text.size()) word = begin;
      return;
    }
    end_word(begin);
    if (c < 0x80) {
      title += static_cast<char>(c);
      return;
    }
    // A letter without case may have a title of its own kind.
    title += utf8(unicode(text.substr(begin, end - begin)).toTitle(nullptr, icu::Locale::getRoot()));
  });
  end_word(text.size());
  return title;
}

std::string capitalized(std::string_view text) {
  return text.empty() ? std::string() : title_of_word(text);
}

bool is_printable(char32_t c) {
  if (c == U' ') return true;
  const std::uint32_t kinds = U_GET_GC_MASK(static_cast<UChar32>(c));
  return (kinds & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

bool is_letter(char32_t c) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_L_MASK) != 0;
}

bool is_decimal_digit(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE) == U_NT_DECIMAL;
}

bool is_digit(char32_t c) {
  const auto type = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}

bool has_number(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

bool is_lower_case(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_LOWERCASE);
}

bool is_upper_case(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_UPPERCASE);
}

bool is_title_case(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_TITLECASE_LETTER;
}

}  // namespace strata::text
