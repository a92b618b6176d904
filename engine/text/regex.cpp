#include "engine/text/regex.h"

#include <fmt/format.h>
#define ONIG_ESCAPE_UCHAR_COLLISION  // UChar is ICU's
#include <oniguruma.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
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

/// Where a match lies, and how often an attempt may step back; kept per thread, since they allocate.
struct Attempt {
  OnigRegion* region = onig_region_new();
  OnigMatchParam* param = onig_new_match_param();
  Attempt() = default;
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() {
    onig_free_match_param(param);
    onig_region_free(region, 1);
  }
};

double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Ends what would take for ever. Oniguruma counts only its steps back, and each of them may look at the
/// whole text. It cannot be interrupted. So an attempt may step back a little first, then four times more,
/// and so on, and in between this thread's time is looked at. Real tokenizers take a hundredth of it.
class Effort {
 public:
  explicit Effort(std::size_t bytes) : bytes_(bytes) {}

  /// What `attempt()` returns with a limit that is not met, if there is one.
  template <typename Try>
  int within_limits(OnigMatchParam* param, const Try& attempt) {
    for (unsigned long limit = kFirstLimit;; limit = std::min(4 * limit, kLastLimit)) {
      onig_set_retry_limit_in_match_of_match_param(param, limit);
      onig_set_retry_limit_in_search_of_match_param(param, limit);
      const int status = attempt();
      const bool is_met =
          status == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER || status == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
      if (!is_met || limit == kLastLimit) return status;
      check_time();
    }
  }

  /// To be called for each match. Throws ConfigError.
  void count_match() {
    if (++matches_ % kMatchesBetweenLooks == 0) check_time();
  }

 private:
  static constexpr unsigned long kFirstLimit = 2'000, kLastLimit = 10'000'000;  // Oniguruma's own
  static constexpr std::int64_t kMatchesBetweenLooks = 64;
  static constexpr double kSeconds = 0.3, kSecondsOfAByte = 3e-6;

  void check_time() {
    const double now = thread_seconds();
    if (begin_ < 0) begin_ = now;
    const double most = kSeconds + kSecondsOfAByte * static_cast<double>(bytes_);
    if (now - begin_ <= most) return;
    throw ConfigError(fmt::format(
        "a regular expression of the tokenizer takes more than {:.1f} s for a text of {} bytes: cut the "
        "text, or take another tokenizer",
        most, bytes_));
  }

  std::size_t bytes_;
  std::int64_t matches_ = 0;
  double begin_ = -1;  ///< seconds of the first look; negative: none yet
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
  thread_local const Attempt found;
  Effort effort(text.size());
  const OnigUChar* begin = bytes(text.data());
  const OnigUChar* end = begin + text.size();
  std::size_t last_end = text.size() + 1;  // of the match before; none yet
  for (std::size_t i = 0; i <= text.size();) {
    effort.count_match();
    // Patterns that split text match where the match before ends, mostly; then no search is needed.
    const OnigUChar* at = begin + i;
    int status = effort.within_limits(found.param, [&] {
      return onig_match_with_param(regex_.get(), begin, end, at, found.region, ONIG_OPTION_NONE, found.param);
    });
    if (status == ONIG_MISMATCH) {
      status = effort.within_limits(found.param, [&] {
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
