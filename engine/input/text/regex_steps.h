// Bounds what Oniguruma may do by steps, which are the same on every machine. Oniguruma bounds its steps back
// only, not the characters that it looks at between two of them. So it is given an encoding that counts
// these.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <string_view>

struct OnigEncodingTypeST;  // Oniguruma's OnigEncodingType

namespace strata::text {

/// UTF-8 that counts each character as Oniguruma looks at it. It outlives all patterns; any thread.
OnigEncodingTypeST* counting_utf8();

/// Limits the characters that this thread's Oniguruma looks at in one call, which counting_utf8() counts.
/// Beyond them each character reaches to the text's end, so the call ends soon with a result that is none.
class CountedCharacters {
 public:
  CountedCharacters(std::string_view text, std::int64_t most);
  CountedCharacters(const CountedCharacters&) = delete;
  CountedCharacters& operator=(const CountedCharacters&) = delete;
  ~CountedCharacters();

  /// The characters that are left of `most`. Negative if more were looked at.
  std::int64_t left() const;
};

/// What a pattern may go over again and again without looking at characters: Oniguruma compares the bytes of
/// literal letters. `(?>a*)b` does so from each place of a text that is all "a".
struct UncountedLoops {
  bool has_any = false;
  std::bitset<256> bytes;  ///< that they go over, at least

  /// From `begin` on, as far as all bytes are of these.
  std::size_t run_length(std::string_view text, std::size_t begin) const;
};

/// Reads as much of the pattern's syntax as that takes, and in doubt says more.
UncountedLoops find_uncounted_loops(std::string_view pattern);

/// The steps of one search through a text, from match to match.
class RegexSteps {
 public:
  /// REQUIRES: what is given outlives this.
  RegexSteps(std::string_view text, const UncountedLoops& loops);

  /// Counts what a call of Oniguruma that begins here may compare uncounted. REQUIRES: `begin` never falls.
  void begin_at(std::size_t begin);

  /// What `call(limit)` returns with a limit of steps back that it does not meet, or with the last. Throws
  /// ConfigError if the text's steps are used up.
  template <typename Call, typename Meets>
  int within_limits(const Call& call, const Meets& meets_limit) {
    for (std::int64_t limit = first_limit_;; limit = std::min(4 * limit, kLastLimit)) {
      const CountedCharacters characters(text_, left_);
      const int status = call(static_cast<unsigned long>(limit));
      const bool is_met = meets_limit(status);
      left_ = characters.left() - (is_met ? limit * weight_ : 0);
      check();
      if (!is_met || limit == kLastLimit) return status;
    }
  }

 private:
  static constexpr std::int64_t kLastLimit = 10'000'000;  // Oniguruma's own

  void check() const;

  std::string_view text_;
  const UncountedLoops* loops_;
  std::int64_t left_;
  std::int64_t weight_ = 1;  ///< steps that a step back counts as
  std::int64_t first_limit_;
  std::size_t run_end_ = 0;  ///< of the run that begin_at() has seen last
};

}  // namespace strata::text
