// What an operation sees: the program, where its buffers are, who works, and what is counted.
#pragma once

#include <cassert>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/task_arena.h"
#include "engine/input/data/training_data.h"
#include "engine/model/compute.h"
#include "engine/plan/program/program.h"
#include "engine/run/execute/lane_streams.h"
#include "engine/run/execute/ranks.h"
#include "engine/run/execute/run_state.h"
#include "engine/run/execute/samples.h"
#include "engine/run/execute/state_saver.h"
#include "engine/run/execute/step_report.h"
#include "engine/run/execute/unit_share.h"
#include "optim/average.h"
#include "optim/counters.h"
#include "optim/loss_scale.h"
#include "optim/schedule.h"
#include "optim/spike.h"
#include "optim/update_policy.h"

namespace strata {

/// The optimizer's settings that do not change from step to step.
struct OptimizerSettings {
  std::vector<UpdatePolicy> policies;  ///< the model's
  double clip_norm = 0;
  /// By UpdatePolicy::schedule: the run's, and those of optimizer.groups.
  std::vector<LearningRateSchedule> schedules = std::vector<LearningRateSchedule>(1);
  LossScaleSettings loss_scale;  ///< of fp16 runs
  AverageSettings average;       ///< of parameters
  SpikeSettings spike;
  std::uint64_t seed = 0;  ///< of stochastic rounding
};

struct OperationSetup {
  const Program* program;
  const UnitCompute* compute;         ///< what forward and backward do
  std::span<const UnitShare> shares;  ///< this rank's, by unit
  const LaneStreams* streams;         ///< programs that never run at once may share them
  TierMemory memory;
  SpillQueues spill;  ///< of the lanes read and write
  LoadMicrobatch load;
  LossTerms loss_terms = {};  ///< nothing: those of the program, in every step
  OptimizerSettings optimizer;
  StateSaver* saver = nullptr;                 ///< of a program that saves
  Samples* samples = nullptr;                  ///< of a program that takes samples
  Ranks* ranks = nullptr;                      ///< of a program that exchanges values with others
  std::int64_t data_rank = 0, data_ranks = 1;  ///< those that share out microbatches
  std::int64_t context_ranks = 1;              ///< and those that share each
  bool counts_losses = true;                   ///< which ranks that share a unit's passes all have
  std::function<bool()> stop_requested = {};   ///< of this rank, if there are several
  std::function<void(std::int64_t step)> on_stop_agreed = {};  ///< some rank's stop reached all in this step
  int threads = 1;
};

/// Serves one program. Each lane's thread uses it for its own instructions.
struct OperationContext {
  explicit OperationContext(OperationSetup setup);

  std::byte* address(BufferId id) const { return setup.memory.at(setup.program->buffer(id)); }
  /// Null if the instruction has no such operand.
  template <typename T>
  T* operand(const Instruction& instruction, Role role) const;
  /// A single value that this host lane reads or writes.
  template <typename T>
  T* value(const Instruction& instruction, Role role) const;
  /// All elements of an operand, which this host lane reads or writes.
  template <typename T>
  std::span<T> span(const Operand& operand) const;
  /// One row of all elements.
  Matrix flat(const Operand& operand) const;
  const UnitShare& share(const Instruction& instruction) const;
  Communicator& group_of(const Instruction& instruction) const { return setup.ranks->group_of(instruction); }
  Meter& meter() const { return setup.streams->meter(); }

  /// What step `step`'s loss is the mean over, and at least 1.
  std::int64_t loss_terms(std::int64_t step) const;

  OperationSetup setup;
  Kernels& kernels;
  TaskArena workers;
  StepReport report;  ///< of loss and grad_norm, which run on lane cpu
  Counters counters;
  /// What passes of the step that runs now are told; only their lane asks.
  struct {
    std::int64_t step = -1;
    float loss_factor = 0;
  } passes;
};

template <typename T>
T* OperationContext::operand(const Instruction& instruction, Role role) const {
  const BufferId id = instruction.find(role);
  return id < 0 ? nullptr : reinterpret_cast<T*>(address(id));
}

template <typename T>
std::span<T> OperationContext::span(const Operand& operand) const {
  assert(size_of(operand.type) == sizeof(T));
  const std::span all = span_of(reinterpret_cast<T*>(address(operand.buffer)), operand.elements);
  meter().touch(all);
  return all;
}

template <typename T>
T* OperationContext::value(const Instruction& instruction, Role role) const {
  T* const one = operand<T>(instruction, role);
  meter().touch(one, sizeof(T));
  return one;
}

}  // namespace strata
