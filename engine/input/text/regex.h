// A regular expression by Oniguruma in its default syntax for UTF-8, as the original uses it. Immutable after
// construction; search from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/input/text/regex_steps.h"

struct re_pattern_buffer;  // Oniguruma's regex_t

namespace strata::text {

class Regex {
 public:
  /// Throws std::invalid_argument with Oniguruma's reason if the pattern is none.
  explicit Regex(std::string_view pattern);

  /// Calls `use(begin, end)` for each match, leftmost first; an empty match right behind another is none.
  /// Throws ConfigError if Oniguruma gives a text up, or takes more than 200 steps a byte and
  /// 20 million: these are counted, so they are the same on every machine. REQUIRES: valid UTF-8.
  void for_each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& use) const;

 private:
  struct Free {
    void operator()(re_pattern_buffer* regex) const;
  };
  std::shared_ptr<re_pattern_buffer> regex_;
  UncountedLoops loops_;
};

}  // namespace strata::text
