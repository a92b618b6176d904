#include "engine/input/text/regex.h"

#include <fmt/format.h>
#define ONIG_ESCAPE_UCHAR_COLLISION  // UChar is ICU's
#include <oniguruma.h>

#include <mutex>
#include <stdexcept>

#include "base/error.h"
#include "base/nth.h"
#include "engine/input/text/regex_properties.h"
#include "engine/input/text/regex_steps.h"
#include "engine/input/text/utf8.h"

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
    OnigEncoding encodings[] = {counting_utf8()};
    onig_initialize(encodings, 1);
    define_regex_properties();
  });
}

/// Places to step back to that one attempt may have: what they take is about 400 MB.
constexpr unsigned int kMostPlaces = 10'000'000;

/// Where a match lies, and how often an attempt may step back; kept per thread, since they allocate.
struct Attempt {
  OnigRegion* region = onig_region_new();
  OnigMatchParam* param = onig_new_match_param();
  Attempt() { onig_set_match_stack_limit_size_of_match_param(param, kMostPlaces); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() {
    onig_free_match_param(param);
    onig_region_free(region, 1);
  }
};

bool meets_limit(int status) {
  return status == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER || status == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
}

}  // namespace

void Regex::Free::operator()(re_pattern_buffer* regex) const {
  onig_free(regex);
}

Regex::Regex(std::string_view pattern) {
  initialize_once();
  OnigRegex regex = nullptr;
  OnigErrorInfo info{};
  const OnigUChar* begin = bytes(pattern.data());
  const int status = onig_new(&regex, begin, begin + pattern.size(), ONIG_OPTION_NONE, counting_utf8(),
                              ONIG_SYNTAX_DEFAULT, &info);
  if (status != ONIG_NORMAL) throw std::invalid_argument(onig_reason(status, &info));
  regex_ = std::shared_ptr<re_pattern_buffer>(regex, Free());
  loops_ = find_uncounted_loops(pattern);
}

void Regex::for_each_match(std::string_view text,
                           const std::function<void(std::size_t, std::size_t)>& use) const {
  thread_local const Attempt found;
  RegexSteps steps(text, loops_);
  const auto limited = [&](const auto& call) {
    const auto with_limit = [&](unsigned long limit) {
      onig_set_retry_limit_in_match_of_match_param(found.param, limit);
      onig_set_retry_limit_in_search_of_match_param(found.param, limit);
      return call();
    };
    return steps.within_limits(with_limit, meets_limit);
  };
  const OnigUChar* begin = bytes(text.data());
  const OnigUChar* end = begin + text.size();
  std::size_t last_end = text.size() + 1;  // of the match before; none yet
  for (std::size_t i = 0; i <= text.size();) {
    steps.begin_at(i);
    // Patterns that split text match where the match before ends, mostly; then no search is needed.
    const OnigUChar* at = begin + i;
    int status = limited([&] {
      return onig_match_with_param(regex_.get(), begin, end, at, found.region, ONIG_OPTION_NONE, found.param);
    });
    if (status == ONIG_MISMATCH) {
      status = limited([&] {
        return onig_search_with_param(regex_.get(), begin, end, at, end, found.region, ONIG_OPTION_NONE,
                                      found.param);
      });
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
