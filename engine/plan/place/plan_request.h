// What the planner is asked of a model: what is decided about its training, what is left to the planner, and
// what each tier may hold. It is made once, from the run file (engine/run/tune/request_of_run.h). The planner
// knows no run file.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "engine/config/choices.h"
#include "engine/plan/lower/strategy.h"
#include "engine/plan/passes/spill.h"
#include "engine/plan/program/memory.h"

namespace strata {

struct MemoryRequest {
  Bytes device = kUnlimited;
  std::optional<Bytes> host = {}, nvme = {};  ///< nothing: model state has no such tier
  TierChoices wanted = {};

  TierBudgets budgets() const { return {device, host.value_or(kUnlimited), nvme.value_or(0)}; }
};

/// How long the planner looks for a shorter step.
enum class SearchEffort : std::uint8_t {
  thorough,        ///< it places the cheapest choices, compares their timelines and tries their neighbours
  first_placement  ///< it takes the first choice that fits, the cheapest by price first
};

struct PlanRequest {
  /// What is decided, of the first stage. What is open is at its plainest: layer-major order, nothing saved,
  /// all state on the host.
  Strategy strategy;
  std::vector<Order> orders = {Order::layer_major};  ///< the planner takes one
  bool chooses_saved = false;  ///< how much of its activations each unit saves; else as `strategy` has it
  MemoryRequest memory = {};
  LaneMode lanes = LaneMode::overlapped;
  SearchEffort effort = SearchEffort::thorough;

  std::int64_t stages() const { return strategy.mesh.pipeline; }
  /// What is decided, of any stage.
  Strategy strategy_of(std::int32_t stage) const {
    Strategy of_stage = strategy;
    of_stage.pipeline.stage = stage;
    return of_stage;
  }
  /// Takes the drives away.
  void leave_out_drives() {
    memory.nvme.reset();
    strategy.piece_bytes = kUnlimited;
  }
};

}  // namespace strata
