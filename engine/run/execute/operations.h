// What each operation of a program does, given where the buffers are. Lanes of the device issue to their
// streams, and the host's lanes do the work. An instruction has the number and the type of its elements.
// UnitShare has what differs between ranks. One Operations serves one program; each lane calls it from its
// own thread for its own instructions.
#pragma once

#include <cassert>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/nth.h"
#include "base/task_arena.h"
#include "engine/input/data/training_data.h"
#include "engine/model/compute.h"
#include "engine/plan/program/program.h"
#include "engine/run/execute/lane_streams.h"
#include "engine/run/execute/ranks.h"
#include "engine/run/execute/run_state.h"
#include "engine/run/execute/samples.h"
#include "engine/run/execute/state_saver.h"
#include "engine/run/execute/unit_share.h"
#include "optim/counters.h"
#include "optim/loss_scale.h"
#include "optim/optimizer_state.h"
#include "optim/schedule.h"
#include "optim/update_policy.h"

namespace strata {

/// The optimizer's settings that do not change from step to step.
struct OptimizerSettings {
  std::vector<UpdatePolicy> policies;  ///< the model's
  double clip_norm = 0;
  LearningRateSchedule schedule;
  LossScaleSettings loss_scale;  ///< of fp16 runs
  std::uint64_t seed = 0;        ///< of stochastic rounding
};

/// One finished step.
struct StepReport {
  std::int64_t step = 0;  ///< from 0
  double loss = 0;
  bool has_loss = true;  ///< false: no token of the step is a target, and the loss is not a number
  double grad_norm = 0, learning_rate = 0;
  bool skipped = false;
  double loss_scale = 1;  ///< of fp16 runs
  double seconds = 0;     ///< since the step before was reported, or since the executor began to run
  bool begins = false;    ///< the first since the executor began: it had no updates of a step before to make
  double drain_seconds =
      0;  ///< of the last before it pauses: until its updates were made, once it was reported
};

class Operations {
 public:
  struct Setup {
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
    std::function<void(std::int64_t step)> on_stop_agreed =
        {};  ///< some rank's stop reached all in this step
    int threads = 1;
  };
  explicit Operations(Setup setup);

  /// One instruction of step `step`: issued to its lane's stream, or done when this returns.
  void perform(const Instruction& instruction, std::int64_t step);

  /// Bytes that this rank has sent so far in the instruction's group of ranks, by the group's own count; 0
  /// if the instruction has no group.
  Bytes sent_bytes(const Instruction& instruction) const;

  /// What instructions have touched and copied since the call before, counted where it happened; without what
  /// ranks sent. While no lane runs.
  MeterCount take_count();

  /// Set by loss and grad_norm: both run on the cpu lane.
  const StepReport& report() const { return report_; }
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

 private:
  std::byte* address(BufferId id) const;
  template <typename T>
  T* operand(const Instruction& instruction, Role role) const;
  /// A single value that this host lane reads or writes.
  template <typename T>
  T* value(const Instruction& instruction, Role role) const;
  /// All elements of an operand, which this host lane reads or writes.
  template <typename T>
  std::span<T> span(const Operand& operand) const;
  Matrix flat(const Operand& operand) const;
  const UnitShare& share(const Instruction& instruction) const;
  Meter& meter() const { return setup_.streams->meter(); }

  bool has_loss(std::int64_t step) const;
  /// What step `step`'s loss is the mean over, and at least 1.
  std::int64_t loss_terms(std::int64_t step) const;
  void run_pass(const Instruction& instruction, std::int64_t step);
  void copy(const Instruction& instruction);
  void read(const Instruction& instruction);
  void write(const Instruction& instruction);
  void cast_gradient(const Instruction& instruction);
  void list_rows(const Instruction& instruction);
  void copy_rows(const Instruction& instruction);
  void sum_rows(const Instruction& instruction);
  void sum_squares(const Instruction& instruction);
  void add_gradient(const Instruction& instruction);
  void sum_norms(const Instruction& instruction);
  std::pair<std::span<const std::int32_t>, Matrix> rows_of(const Instruction& instruction) const;
  Communicator& group_of(const Instruction& instruction) const;
  void pass_on(const Instruction& instruction);
  void pass_around(const Instruction& instruction);
  void exchange(const Instruction& instruction);
  void load_data(const Instruction& instruction, std::int64_t step);
  void sum_losses(const Instruction& instruction, std::int64_t step);
  void loss(const Instruction& instruction, std::int64_t step);
  void join_logits(const Instruction& instruction);
  void choose_tokens(const Instruction& instruction);
  void take_tokens(const Instruction& instruction);
  double squares(const Instruction& instruction) const;
  void write_scalars(const Operand& scalars, double norm, double scale, std::int64_t step,
                     std::int64_t update) const;
  void stash(const Instruction& instruction);
  void pack(const Instruction& instruction);
  void unpack(const Instruction& instruction);
  void step_scalars(const Instruction& instruction, std::int64_t step);
  void grad_norm(const Instruction& instruction, std::int64_t step);
  void save(const Instruction& instruction, std::int64_t step);
  void update_on_device(const Instruction& instruction);
  void update_on_host(const Instruction& instruction);
  template <typename Update>
  void update_parts(const Instruction& instruction, const Update& update) const;
  OptimizerState state_of_piece(const Instruction& instruction) const;

  Setup setup_;
  Kernels& kernels_;
  TaskArena workers_;
  StepReport report_;
  Counters counters_;
  /// What passes of the step that runs now are told; only their lane asks.
  struct {
    std::int64_t step = -1;
    float loss_factor = 0;
  } passes_;
};

template <typename T>
T* Operations::operand(const Instruction& instruction, Role role) const {
  const BufferId id = instruction.find(role);
  return id < 0 ? nullptr : reinterpret_cast<T*>(address(id));
}

template <typename T>
std::span<T> Operations::span(const Operand& operand) const {
  assert(size_of(operand.type) == sizeof(T));
  const std::span all = span_of(reinterpret_cast<T*>(address(operand.buffer)), operand.elements);
  meter().touch(all);
  return all;
}

template <typename T>
T* Operations::value(const Instruction& instruction, Role role) const {
  T* const one = operand<T>(instruction, role);
  meter().touch(one, sizeof(T));
  return one;
}

}  // namespace strata
