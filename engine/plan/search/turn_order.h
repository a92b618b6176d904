// In which order models take turns on the device: computed before anything runs, from how long their turns
// take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata {

/// A model's turns in a round, which has a step of each model.
struct TurnsOfModel {
  std::vector<double> seconds;  ///< that each turn computes
  /// By turn: turns with the same number stand together, since they use the same parameters.
  std::vector<std::int32_t> visit;
  std::int64_t remaining_steps = 1;  ///< of the run

  double step_seconds() const;
};

struct TurnOrder {
  std::string name;
  std::vector<std::int32_t> models;  ///< whose turn it is, from turn to turn
};

/// The orders to choose from: longest remaining time first, at each turn, as Hydra does it (Nagrecha and
/// Kumar 2021); step after step; and staggered, with two, four or all models under way, each begun as much
/// later than the one before it as evens out what their steps ask of the links. Models without turns take no
/// part.
std::vector<TurnOrder> turn_orders(const std::vector<TurnsOfModel>& models);

}  // namespace strata
