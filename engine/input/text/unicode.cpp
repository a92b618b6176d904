#include "engine/input/text/unicode.h"

#include <fmt/format.h>
#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "engine/input/text/newer_characters.h"
#include "engine/input/text/utf8.h"

namespace strata::text {
namespace {

// The original's crates have tables of these versions of Unicode, and characters that are newer are
// unassigned to them: unicode-normalization-alignments 0.1, and unicode_categories 0.1.
constexpr int kNormalizationVersion = 9;
constexpr int kCategoryVersion = 8;
// Characters whose category was another one then.
constexpr bool was_punctuation(char32_t c) {
  return c == 0x166d || c == 0x111c9;
}
constexpr bool was_spacing_mark(char32_t c) {
  return c == 0x1cf2 || c == 0x1cf3;
}
constexpr bool was_nonspacing_mark(char32_t c) {
  return c == 0x1734;
}
constexpr bool was_no_nonspacing_mark(char32_t c) {
  return c == 0x1885 || c == 0x1886 || c == 0xa9bd || was_punctuation(c);
}

void check_icu(UErrorCode status) {
  if (U_FAILURE(status) != 0) throw std::runtime_error(std::string("ICU: ") + u_errorName(status));
}

bool has_category(char32_t c, std::uint32_t mask) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0;
}

/// Whether the character was in the given version of Unicode already.
bool was_in(char32_t c, int version) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] != 0 && age[0] <= version;
}

const icu::Normalizer2& unfiltered(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = form == NormalForm::nfc    ? icu::Normalizer2::getNFCInstance(status)
                                  : form == NormalForm::nfd  ? icu::Normalizer2::getNFDInstance(status)
                                  : form == NormalForm::nfkc ? icu::Normalizer2::getNFKCInstance(status)
                                                             : icu::Normalizer2::getNFKDInstance(status);
  check_icu(status);
  return *found;
}

/// Leaves characters that are newer than kNormalizationVersion as they are, which is the same where they have
/// neither a decomposition nor a place among marks.
icu::FilteredNormalizer2 filtered(NormalForm form) {
  static const icu::UnicodeSet characters = [] {
    UErrorCode status = U_ZERO_ERROR;
    icu::UnicodeSet set(icu::UnicodeString::fromUTF8(fmt::format("[:age={}.0:]", kNormalizationVersion)),
                        status);
    check_icu(status);
    set.freeze();
    return set;
  }();
  return {unfiltered(form), characters};
}

/// The character's place among marks behind one letter; 0: it begins anew.
std::uint8_t mark_order(char32_t c) {
  const std::uint8_t order = c < 0x300 ? 0 : u_getCombiningClass(static_cast<UChar32>(c));
  return order != 0 && was_in(c, kNormalizationVersion) ? order : 0;
}

/// Puts long runs of marks in the order that all normal forms have, in which ICU puts marks one by one, in
/// time by the square of their number.
void sort_long_runs_of_marks(std::string& text) {
  constexpr std::size_t kLong = 256;  // bytes; ICU is faster with fewer
  struct Mark {
    std::uint8_t order;
    char32_t character;
  };
  std::size_t run = 0;
  for (std::size_t end = 0;;) {
    const bool goes_on = end < text.size() && mark_order(code_point_at(text, end)) != 0;
    if (!goes_on && end - run >= kLong) {
      std::vector<Mark> marks;
      for_each_character(std::string_view(text).substr(run, end - run),
                         [&](char32_t c, std::size_t, std::size_t) {
                           marks.push_back({mark_order(c), c});
                         });
      std::ranges::stable_sort(marks, {}, &Mark::order);
      std::string sorted;
      for (const Mark& mark : marks) append_character(sorted, mark.character);
      text.replace(run, sorted.size(), sorted);
    }
    if (end == text.size()) return;
    end += character_bytes(text[end]);
    if (!goes_on) run = end;
  }
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
  return has_category(c, U_GC_N_MASK) || is_newer_numeric(c);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return was_punctuation(c) || (has_category(c, U_GC_P_MASK) && was_in(c, kCategoryVersion));
}

bool is_control(char32_t c) {
  return has_category(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK) && was_in(c, kCategoryVersion);
}

bool is_nonspacing_mark(char32_t c) {
  if (was_nonspacing_mark(c) || was_no_nonspacing_mark(c)) return was_nonspacing_mark(c);
  return has_category(c, U_GC_MN_MASK) && was_in(c, kCategoryVersion);
}

bool is_combining_mark(char32_t c) {
  if (was_spacing_mark(c) || was_punctuation(c)) return was_spacing_mark(c);
  return has_category(c, U_GC_M_MASK) && was_in(c, kNormalizationVersion);
}

bool is_word(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return u_isUAlphabetic(static_cast<UChar32>(c)) != 0 ||
         has_category(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_JOIN_CONTROL) != 0 || is_newer_word(c);
}

void normalize_text(std::string& text, NormalForm form) {
  if (is_ascii(text)) return;
  sort_long_runs_of_marks(text);
  UErrorCode status = U_ZERO_ERROR;
  // What is normal by all characters' rules is normal by some characters', too, and this is soon said.
  if (unfiltered(form).isNormalizedUTF8(piece(text), status)) return;
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized, static_cast<std::int32_t>(text.size()));
  filtered(form).normalizeUTF8(0, piece(text), sink, nullptr, status);
  check_icu(status);
  text.swap(normalized);
}

void append_lower_case(std::string& text, char32_t c) {
  if (c == 0x130) {  // İ, the one character whose lower case is two: SpecialCasing.txt
    text.append("i\xcc\x87");
    return;
  }
  const auto lower = static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
  append_character(text, lower == c ? newer_lower_case(c) : lower);
}

void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& use) {
  UErrorCode status = U_ZERO_ERROR;
  // Making one costs more than most texts take, so each thread keeps its own.
  thread_local const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  check_icu(status);
  UText unicode_text = UTEXT_INITIALIZER;
  utext_openUTF8(&unicode_text, text.data(), static_cast<std::int64_t>(text.size()), &status);
  breaks->setText(&unicode_text, status);
  check_icu(status);
  std::int32_t begin = breaks->first();
  for (std::int32_t end = breaks->next(); end != icu::BreakIterator::DONE;
       begin = end, end = breaks->next()) {
    use(text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }
  utext_close(&unicode_text);
}

}  // namespace strata::text
