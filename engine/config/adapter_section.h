// The adapter section of a run file: what is trained beside frozen layers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/choices.h"

namespace strata {

/// Values for layers whose names match a pattern, in their order.
template <typename T>
using ValuesByPattern = std::vector<std::pair<std::string, T>>;

struct AdapterSection {
  AdapterType type = AdapterType::none;
  std::int64_t rank = 16;
  double alpha = 32;
  ValuesByPattern<std::int64_t> rank_pattern = {};  ///< in place of rank, as PEFT's
  ValuesByPattern<double> alpha_pattern = {};       ///< in place of alpha
  std::vector<std::string> targets = {kAllLinear};  ///< ends of the names of layers
  std::string path;                                 ///< PEFT folder to begin with; empty: random ones
  double dropout = 0;                               ///< probability, of what A reads
  static constexpr const char* kAllLinear = "all-linear";
  friend bool operator==(const AdapterSection&, const AdapterSection&) = default;
};

}  // namespace strata
