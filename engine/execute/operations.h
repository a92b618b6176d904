// What each operation of a program does, given where the buffers are. One Operations serves one program; each lane calls it
// from its own thread for its own instructions.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "engine/device/device.h"
#include "engine/model/compute.h"
#include "engine/plan/planner.h"
#include "optim/host_workers.h"
#include "optim/schedule.h"

namespace strata {

/// The tiers' memory; a buffer is at its tier's base plus its offset.
struct TierMemory {
  std::byte* device = nullptr;
  std::byte* host = nullptr;
};

/// Fills the tokens and targets of one microbatch of one step. Called from the read lane; must not allocate.
using LoadMicrobatch = std::function<void(std::int64_t step, std::int64_t microbatch, std::span<std::int32_t> tokens,
                                          std::span<std::int32_t> targets)>;

/// The optimizer's settings that do not change from step to step.
struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0, clip_norm = 0;
  bool decay_all = false;  ///< decay vectors too, not only matrices
  Schedule schedule;
};

/// What grad_norm decides for the step's updates; lives in the program's step_scalars buffer.
struct StepScalars {
  float learning_rate;
  float gradient_scale;
  std::int64_t update;  ///< counts applied updates from 1
  bool skip;
};

/// What the run has done so far, besides the state itself.
struct Counters {
  std::int64_t step = 0;     ///< finished steps: the next one to run
  std::int64_t updates = 0;  ///< applied
  std::int64_t skipped = 0;  ///< steps whose gradient norm was not finite
};

/// One finished step.
struct StepReport {
  std::int64_t step = 0;  ///< from 0
  double loss = 0, grad_norm = 0, learning_rate = 0;
  bool skipped = false;
  double seconds = 0;  ///< since the step before was reported
};

class Operations {
 public:
  struct Setup {
    const Plan* plan;
    const PlannedProgram* program;
    const Model* model;
    Kernels* kernels;  ///< of the compute lane; programs that never run at once may share them
    Device* device;
    TierMemory memory;
    LoadMicrobatch load;
    OptimizerSettings optimizer;
    int threads = 1;
  };
  explicit Operations(Setup setup);

  /// Performs one instruction of step `step`; blocks until it is done.
  void perform(const Instruction& instruction, std::int64_t step);

  /// Set by loss and grad_norm: both run on the cpu lane.
  const StepReport& report() const { return report_; }
  Counters& counters() { return counters_; }

 private:
  std::byte* address(BufferId id) const;
  template <typename T>
  T* operand(const Instruction& instruction, Role role) const;
  const Unit& unit(const Instruction& instruction) const;

  UnitMemory unit_memory(const Instruction& instruction) const;
  void cast_gradient(const Instruction& instruction);
  void sum_squares(const Instruction& instruction);
  void loss(const Instruction& instruction, std::int64_t step);
  void grad_norm(const Instruction& instruction, std::int64_t step);
  void update(const Instruction& instruction);

  Setup setup_;
  UnitCompute compute_;
  HostWorkers workers_;
  HostWorkers device_workers_;
  StepReport report_;
  Counters counters_;
};

}  // namespace strata
