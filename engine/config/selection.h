// How a run of several models ends the worst of them on the way. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/config/words.h"

namespace strata {

/// What models are compared by at a rung: the held-out loss, or that of training.
enum class SelectBy : std::uint8_t { validation, training };
template <>
struct Words<SelectBy> {
  static constexpr std::array<std::string_view, 2> list = {"validation", "training"};
};

/// Successive halving: behind each rung's step the best `keep` of the models go on.
struct Selection {
  std::vector<std::int64_t> rung_steps;  ///< rising; empty: all models are trained to their end
  double keep = 0.5;
  SelectBy by = SelectBy::validation;
  friend bool operator==(const Selection&, const Selection&) = default;
};

}  // namespace strata
