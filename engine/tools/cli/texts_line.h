// How far texts have become tokens, on standard error.
#pragma once

#include "engine/input/data/tokenize.h"
#include "engine/tools/report/status_line.h"

namespace strata {

class TextsLine {
 public:
  void show(const TokenizeProgress& progress);
  /// Clears it. Returns the seconds since the beginning.
  double end();

 private:
  StatusLine line_;
};

}  // namespace strata
