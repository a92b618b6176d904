#include "engine/text/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "engine/text/utf8.h"

namespace strata {
namespace {

void check(UErrorCode status) {
  if (U_FAILURE(status) != 0) throw std::runtime_error(std::string("ICU: ") + u_errorName(status));
}

bool has_category(char32_t c, std::uint32_t mask) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0;
}

const icu::Normalizer2& normalizer(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = form == NormalForm::nfc    ? icu::Normalizer2::getNFCInstance(status)
                                  : form == NormalForm::nfd  ? icu::Normalizer2::getNFDInstance(status)
                                  : form == NormalForm::nfkc ? icu::Normalizer2::getNFKCInstance(status)
                                                             : icu::Normalizer2::getNFKDInstance(status);
  check(status);
  return *found;
}

icu::StringPiece piece(std::string_view text) {
  return {text.data(), static_cast<std::int32_t>(text.size())};
}

}  // namespace

bool is_whitespace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return has_category(c, U_GC_N_MASK);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return has_category(c, U_GC_P_MASK);
}

bool is_control(char32_t c) {
  return has_category(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK);
}

bool is_nonspacing_mark(char32_t c) {
  return has_category(c, U_GC_MN_MASK);
}

bool is_combining_mark(char32_t c) {
  return has_category(c, U_GC_M_MASK);
}

bool is_word(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return u_isUAlphabetic(static_cast<UChar32>(c)) != 0 ||
         has_category(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_JOIN_CONTROL) != 0;
}

void normalize_text(std::string& text, NormalForm form) {
  if (is_ascii(text)) return;
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2& chosen = normalizer(form);
  if (chosen.isNormalizedUTF8(piece(text), status)) return;
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized, static_cast<std::int32_t>(text.size()));
  chosen.normalizeUTF8(0, piece(text), sink, nullptr, status);
  check(status);
  text.swap(normalized);
}

void append_lower_case(std::string& text, char32_t c) {
  if (c == 0x130) {  // İ, the one character whose lower case is two: SpecialCasing.txt
    text.append("i\xcc\x87");
    return;
  }
  append_character(text, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& use) {
  UErrorCode status = U_ZERO_ERROR;
  // Making one costs more than most texts take, so each thread keeps its own.
  thread_local const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  check(status);
  UText unicode_text = UTEXT_INITIALIZER;
  utext_openUTF8(&unicode_text, text.data(), static_cast<std::int64_t>(text.size()), &status);
  breaks->setText(&unicode_text, status);
  check(status);
  std::int32_t begin = breaks->first();
  for (std::int32_t end = breaks->next(); end != icu::BreakIterator::DONE;
       begin = end, end = breaks->next()) {
    use(text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }
  utext_close(&unicode_text);
}

}  // namespace strata
