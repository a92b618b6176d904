// The values that a step computes with: sizes and names, before any of them has a place.
#pragma once

#include <vector>

#include "engine/plan/lower/program_builder.h"
#include "engine/plan/lower/strategy.h"

namespace strata {

/// What an update brings to where it is made.
struct StatePiece {
  struct OfMoment {
    Moment moment;
    Value value;
  };
  Piece piece;
  Value master;
  std::vector<OfMoment> moments;  ///< that the rule keeps
};

/// With one rank in the sharding group a shard is the whole, and `parameter` is the one that is updated. What
/// a unit does not have, of what is trained or of what is frozen, has no elements.
struct UnitValues {
  Value parameter, parameter_shard, frozen, frozen_shard, gradient, reduced_gradient, cast_gradient,
      step_scalars;
  std::vector<Value> norms;  ///< per update of a step
  /// Parameters as they were before an update, by number: of an asynchronous pipeline, if it has updates.
  struct Stash {
    Value parameter, parameter_shard;
  };
  std::vector<Stash> stashes;
  /// Null if a pass uses what updates write.
  Stash* stash(std::int32_t number) {
    return number < 0 || stashes.empty() ? nullptr : &stashes[static_cast<std::size_t>(number)];
  }
  std::vector<StatePiece> state;
  /// What another stage has given of its gradient.
  Value received_gradient;
  /// That of the update for a microbatch, or of a step's only one.
  Value& norm_of(std::int32_t microbatch) {
    return norms[norms.size() == 1 ? 0 : static_cast<std::size_t>(microbatch)];
  }
  /// This stage updates something of it.
  bool trains() const { return !state.empty(); }
  std::vector<Value> input, input_gradient, saved, pending;  ///< per microbatch
  /// These hold its gradient if that travels as rows: this rank's, and all ranks'.
  Value rows, row_values, all_rows, all_row_values;
};

struct StepValues {
  std::vector<UnitValues> units;
  std::vector<std::vector<Value>> data;  ///< by number of the array, per microbatch
  std::vector<Value> losses, tally;      ///< per microbatch
  Value constants, stage_norm, step_sums, step_scalars, loss_scale, step_record;
};

/// Makes the values of a step of `microbatches` microbatches on this rank.
StepValues make_step_values(const Model& model, const Strategy& strategy, const UnitCompute& compute,
                            std::int64_t microbatches);

}  // namespace strata
