#include "engine/text/regex.h"

#include <fmt/format.h>
#define ONIG_ESCAPE_UCHAR_COLLISION  // UChar is ICU's
#include <oniguruma.h>

#include <mutex>
#include <stdexcept>

#include "base/error.h"
#include "engine/text/regex_properties.h"
#include "engine/text/utf8.h"

namespace strata::text {
namespace {

const OnigUChar* bytes(const char* text) {
  return reinterpret_cast<const OnigUChar*>(text);
}

std::string onig_reason(int status, OnigErrorInfo* info = nullptr) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = onig_error_code_to_str(text, status, info);
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(length)};
}

void initialize_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    define_regex_properties();
  });
}

/// Where a match lies; kept per thread, since it allocates.
struct Region {
  OnigRegion* region = onig_region_new();
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() { onig_region_free(region, 1); }
};

}  // namespace

void Regex::Free::operator()(re_pattern_buffer* regex) const {
  onig_free(regex);
}

Regex::Regex(std::string_view pattern) {
  initialize_once();
  OnigRegex regex = nullptr;
  OnigErrorInfo info{};
  const OnigUChar* begin = bytes(pattern.data());
  const int status = onig_new(&regex, begin, begin + pattern.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                              ONIG_SYNTAX_DEFAULT, &info);
  if (status != ONIG_NORMAL) throw std::invalid_argument(onig_reason(status, &info));
  regex_ = std::shared_ptr<re_pattern_buffer>(regex, Free());
}

void Regex::for_each_match(std::string_view text,
                           const std::function<void(std::size_t, std::size_t)>& use) const {
  thread_local const Region found;
  const OnigUChar* begin = bytes(text.data());
  const OnigUChar* end = begin + text.size();
  std::size_t last_end = text.size() + 1;  // of the match before; none yet
  for (std::size_t i = 0; i <= text.size();) {
    // Patterns that split text match where the match before ends, mostly; then no search is needed.
    const OnigUChar* at = begin + i;
    int status = onig_match(regex_.get(), begin, end, at, found.region, ONIG_OPTION_NONE);
    if (status == ONIG_MISMATCH) {
      status = onig_search(regex_.get(), begin, end, at, end, found.region, ONIG_OPTION_NONE);
    }
    if (status == ONIG_MISMATCH) return;
    if (status < 0) {
      throw ConfigError(
          fmt::format("a regular expression of the tokenizer gives up on a text of {} bytes: {}", text.size(),
                      onig_reason(status)));
    }
    const auto match_begin = static_cast<std::size_t>(found.region->beg[0]);
    const auto match_end = static_cast<std::size_t>(found.region->end[0]);
    if (match_begin == match_end && match_end == last_end) {
      i += i < text.size() ? character_bytes(text[i]) : 1;
      continue;
    }
    i = last_end = match_end;
    use(match_begin, match_end);
  }
}

}  // namespace strata::text
