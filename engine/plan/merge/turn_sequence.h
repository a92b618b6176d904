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

struct TurnSequence {
  std::string name;
  std::vector<std::int32_t> models;  ///< whose turn it is, from turn to turn
  /// By model: the turn that its part of a round begins with. Those from it on are of the step before the
  /// round's, so 0 means whole steps.
  std::vector<std::size_t> begins;
};

/// Where a round may end: between the steps of all models, or within some of them, which go on in the next.
enum class RoundEnds { between_steps, within_steps };

/// The orders to choose from:
/// - longest remaining time first, at each turn, as Hydra does it (Nagrecha and Kumar 2021);
/// - step after step;
/// - staggered, with two, three, four or all models under way. Each begins so much later than the one before
/// it
///   that their steps' demands on the links even out. The same number is under way at every moment, also
///   where a round ends, if a round may end within steps. Turns of a visit stand together, or each for
///   itself.
/// Models without turns take no part.
std::vector<TurnSequence> turn_sequences(const std::vector<TurnsOfModel>& models, RoundEnds ends);

}  // namespace strata
