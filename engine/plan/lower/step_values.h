// The values that a step computes with: sizes and names, before any of them has a place.
#pragma once

#include <vector>

#include "base/nth.h"
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
  std::vector<OfMoment> moments;  ///< that rules keep of something in it
};

/// One of a unit's flat parameters: all of it as passes read it, and what a rank has of it. What a unit does
/// not have has no elements.
struct ParameterValues {
  Value whole, shard;
  Value packed, packed_shard;  ///< the same in packed form, if it is kept and travels so

  bool is_packed() const { return packed.elements > 0; }
  /// What a rank has from step to step. Where ranks do not gather, that is the whole.
  Value& kept(bool gathers) {
    if (is_packed()) return gathers ? packed_shard : packed;
    return gathers ? shard : whole;
  }
};

struct UnitValues {
  ParameterValues parameter, frozen;
  Value gradient, reduced_gradient, cast_gradient, step_scalars;
  std::vector<Value> norms;  ///< per update of a step
  /// Parameters as they were before an update, by number: of an asynchronous pipeline, if it has updates.
  std::vector<ParameterValues> stashes;
  /// Those that a pass uses: a stash, or what updates write.
  ParameterValues& parameter_of(std::int32_t stash) {
    return stash < 0 || stashes.empty() ? parameter : nth(stashes, stash);
  }
  std::vector<StatePiece> state;
  Value factors;  ///< if its rules keep some
  /// If whole tensors of it are updated: the directions of all shards together, those of all ranks that share
  /// its passes, and what finding them needs.
  Value directions, all_directions, direction_workspace;
  /// What another stage has given of its gradient.
  Value received_gradient;
  /// That of the update for a microbatch, or of a step's only one.
  Value& norm_of(std::int32_t microbatch) { return nth(norms, norms.size() == 1 ? 0 : microbatch); }
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
  Value logits, all_logits,
      next_tokens;  ///< of samples: this rank's columns, all, and what is chosen by them
  Value constants, stage_norm, step_sums, step_scalars, loss_scale, step_record;
};

/// Makes the values of a step of `microbatches` microbatches on this rank.
StepValues make_step_values(const Model& model, const Strategy& strategy, const UnitCompute& compute,
                            std::int64_t microbatches);

}  // namespace strata
