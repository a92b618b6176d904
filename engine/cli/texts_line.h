// How far texts have become tokens, on standard error.
#pragma once

#include <unistd.h>

#include <chrono>

#include "engine/data/tokenize.h"

namespace strata {

/// One line that grows on a terminal; elsewhere a line every 30 s.
class TextsLine {
 public:
  void show(const TokenizeProgress& progress);
  /// Clears it. Returns the seconds since the beginning.
  double end();

 private:
  using Clock = std::chrono::steady_clock;
  const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  const Clock::time_point begin_ = Clock::now();
  double shown_ = 0;
};

}  // namespace strata
