#include "engine/input/text/regex_properties.h"

#include <fmt/format.h>
#define ONIG_ESCAPE_UCHAR_COLLISION  // UChar is ICU's
#include <oniguruma.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>

#include <array>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "engine/input/text/newer_characters.h"

namespace strata::text {
namespace {

/// \p{...} of these names; Oniguruma lets 20 be defined.
constexpr std::array<std::string_view, 13> kCategories = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",
                                                          "Mn", "Mc", "N",  "Nd", "P",  "S"};

icu::UnicodeSet set_of(std::string_view pattern) {
  UErrorCode status = U_ZERO_ERROR;
  icu::UnicodeSet set(
      icu::UnicodeString::fromUTF8(icu::StringPiece(pattern.data(), static_cast<int>(pattern.size()))),
      status);
  if (U_FAILURE(status) != 0)
    throw std::runtime_error(fmt::format("ICU: {}: {}", pattern, u_errorName(status)));
  return set;
}

icu::UnicodeSet category(std::string_view name) {
  icu::UnicodeSet set = set_of(fmt::format("[[:gc={}:]&[:age=16.0:]]", name));
  for (const CharacterRange& range : newer_characters()) {
    const auto first = static_cast<UChar32>(range.first), last = static_cast<UChar32>(range.last);
    if (range.category.starts_with(name)) {
      set.add(first, last);
    } else {
      set.remove(first, last);
    }
  }
  return set;
}

/// Oniguruma keeps what it is given, so it is never freed.
void define(std::string_view name, const icu::UnicodeSet& set) {
  static std::vector<std::vector<OnigCodePoint>> kept;
  std::vector<OnigCodePoint> ranges{static_cast<OnigCodePoint>(set.getRangeCount())};
  for (int i = 0; i < set.getRangeCount(); ++i) {
    ranges.push_back(static_cast<OnigCodePoint>(set.getRangeStart(i)));
    ranges.push_back(static_cast<OnigCodePoint>(set.getRangeEnd(i)));
  }
  kept.push_back(std::move(ranges));
  const int status = onig_unicode_define_user_property(std::string(name).c_str(), kept.back().data());
  if (status != ONIG_NORMAL)
    throw std::runtime_error(fmt::format("Oniguruma does not take the class {}", name));
}

}  // namespace

void define_regex_properties() {
  for (const std::string_view name : kCategories) define(name, category(name));
  icu::UnicodeSet han = set_of("[[:Script=Han:]&[:age=16.0:]]");
  han.add(0x2ebf0, 0x2ee5d);  // extension I, of Unicode 15.1
  define("Han", han);
}

}  // namespace strata::text
