// What `train.precision: auto` becomes. It changes bits, so it is chosen once, before a run is planned, for
// all its ranks, and a run that goes on keeps what it began with. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "base/precision.h"

namespace strata {

struct RunConfig;

/// What the choice depends on besides the run file.
struct PrecisionFacts {
  struct Stored {
    std::string checkpoint;  ///< its folder
    Precision precision = {};
  };

  std::optional<Stored> stored;  ///< if the run goes on
  /// Whose CPU has no bf16 instructions, "this CPU (vector code avx2)"; empty if all ranks' have them.
  std::string without_bf16;
};

struct PrecisionChoice {
  Precision precision = {};
  std::string why;  ///< a sentence
  friend bool operator==(const PrecisionChoice&, const PrecisionChoice&) = default;
};

/// For a run file that says auto.
PrecisionChoice choose_precision(const RunConfig& config, const PrecisionFacts& facts);

}  // namespace strata
