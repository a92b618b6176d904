// The planner: run file and model in, complete plan out. It chooses what the run file leaves open (order,
// which units' state lives on the device, what stays resident) from the budgets alone; nothing here needs a
// device or memory of the model's size.
#pragma once

#include <memory>
#include <optional>

#include "engine/plan/dependencies.h"
#include "engine/plan/memory.h"
#include "engine/plan/program.h"
#include "engine/plan/strategy.h"

namespace strata {

/// A program ready to run.
struct PlannedProgram {
  Program program;
  Dependencies dependencies;
  TierUse device, host;
  Bytes h2d_bytes = 0, d2h_bytes = 0;  ///< copied by one run of the program
};

/// FLOPs of one training step; the formulas stand in engine/model.
struct StepFlops {
  double model = 0;     ///< forward + backward: what MFU counts
  double executed = 0;  ///< with recomputation: what HFU counts
};

struct Plan {
  Strategy strategy;
  PlannedProgram training;
  std::optional<PlannedProgram> validation;
  Bytes device_budget = kUnlimited, host_budget = kUnlimited;
  StepFlops flops;
  std::int64_t parameters = 0;
  std::int64_t host_parameters = 0;  ///< of them, those whose state lives on the host and is updated there
  std::int64_t tokens_per_step = 0;

  /// What the arenas must hold: the larger of both programs.
  Bytes arena_bytes(Tier tier) const;
};

/// Throws ConfigError where the budgets cannot hold the run, naming what does not fit and the smallest budget
/// that would.
Plan make_plan(const RunConfig& config, const Model& model);

}  // namespace strata
