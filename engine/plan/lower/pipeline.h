// Pipelines: which of its chunks of units each stage works on, in which order, for which microbatch. A
// schedule is a list per stage, made by a pure function and known before there is a program. Formulas for
// bubbles, activations in flight and bytes are derived in docs/explanation/pipelines.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/choices.h"
#include "engine/plan/lower/schedule.h"

namespace strata {

/// The model's units are cut into stages × chunks stretches, and chunk c is that of stage c mod `stages`.
struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::int32_t stages = 1;
  std::int32_t chunks = 1;  ///< of each stage
  std::int32_t microbatches = 1;

  std::int32_t all_chunks() const { return stages * chunks; }
  std::int32_t stage_of(std::int32_t chunk) const { return chunk % stages; }
};

/// REQUIRES: the strategy is of a pipeline.
PipelineShape pipeline_shape(const Strategy& strategy, std::int64_t microbatches);

/// Why a schedule cannot take such numbers, and which it could; empty if it can.
std::string check_pipeline(const PipelineShape& shape);

/// A pass of all units of a chunk for one microbatch: forward, backward, or input_gradient and
/// weight_gradient.
struct ChunkPass {
  Pass pass = Pass::forward;
  std::int32_t chunk = 0;
  std::int32_t microbatch = 0;
  friend bool operator==(const ChunkPass&, const ChunkPass&) = default;
};

/// By stage, its passes in a training step. Under an asynchronous schedule these are the passes of a run of
/// `microbatches` microbatches, of whichever steps. Gradients sum microbatches 0, 1, … under every schedule.
/// REQUIRES: check_pipeline() finds nothing wrong.
using PipelinePasses = std::vector<std::vector<ChunkPass>>;
PipelinePasses training_passes(const PipelineShape& shape);
/// Under an asynchronous schedule, how many microbatches' forward passes a stage is ahead of its backward
/// passes.
std::int32_t passes_ahead(const PipelineShape& shape, std::int32_t stage);
/// Forward passes only.
PipelinePasses validation_passes(const PipelineShape& shape);

/// What one chunk's unit of work costs: a forward pass 1, a whole backward pass 2, each half of it 1.
struct TimedPass {
  ChunkPass pass;
  double start = 0, end = 0;
};
/// When each pass begins and ends if each begins as soon as its stage is free and what it needs of others has
/// been made. Throws std::logic_error, naming the passes, if stages wait for each other in a circle.
std::vector<std::vector<TimedPass>> pipeline_timeline(const PipelineShape& shape,
                                                      const PipelinePasses& passes);

/// What goes from one chunk's stage to that of the next or of the one before.
struct BoundaryMessage {
  bool is_gradient = false;  ///< of the later chunk's input, or that input
  std::int32_t chunk = 0;    ///< the later one
  std::int32_t microbatch = 0;
  std::int32_t from = 0, to = 0;  ///< stages
  friend bool operator==(const BoundaryMessage&, const BoundaryMessage&) = default;
};

/// What one stage does, in order: passes, and its ends of messages.
struct StageStep {
  bool is_message = false;
  ChunkPass pass = {};           ///< if it is none
  BoundaryMessage message = {};  ///< if it is one
  Serves serves = Serves::step;
  double time = 0;  ///< at which it begins, as in pipeline_timeline()
};
/// All stages' passes and messages have one order, and each stage has its part of that order. So ranks never
/// wait in a circle, not even if each does one thing at a time and a send waits for its receive. The first
/// pass or message of all that are left can always be done. A message arrives one pass before it is needed if
/// it is there by then.
std::vector<std::vector<StageStep>> with_messages(const PipelineShape& shape, const PipelinePasses& passes);
/// A round of training. Under an asynchronous schedule it is the steady state: a step's passes but for the
/// first ones, which the round before has done, and the next step's first ones. With pipedream the rounds of
/// all stages end at one time, with the first stage's last pass of a step. With pipedream_2bw each stage's
/// round ends with the stage's own last pass and the next input. So a step's backward passes, which add up
/// one gradient, are of one round.
std::vector<std::vector<StageStep>> training_round(const PipelineShape& shape);

/// The most microbatches whose forward pass through a chunk a stage has done and whose activations it still
/// needs, counted per chunk.
std::int32_t most_in_flight(const std::vector<ChunkPass>& passes);

/// A table of who does what when: a line per stage, a column per unit of time.
std::string print_table(const PipelineShape& shape, const PipelinePasses& passes);

}  // namespace strata
