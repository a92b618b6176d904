// How a run of several models ends the worst of them on the way. Plain values.
#pragma once

#include <cstdint>
#include <vector>

namespace strata {

/// What models are compared by at a rung: the held-out loss, or that of training.
enum class SelectBy : std::uint8_t { validation, training };

/// Successive halving: behind each rung's step the best `keep` of the models go on.
struct Selection {
  std::vector<std::int64_t> rung_steps;  ///< rising; empty: all models are trained to their end
  double keep = 0.5;
  SelectBy by = SelectBy::validation;
  friend bool operator==(const Selection&, const Selection&) = default;
};

}  // namespace strata
