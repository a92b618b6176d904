// Small models and strategies for the passes' tests, and a symbolic machine that runs programs on hashes
// instead of numbers: two programs with equal final hashes compute the same function of the same inputs.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/precision.h"
#include "engine/config/run_config.h"
#include "engine/plan/lower/lower.h"
#include "engine/plan/planner/planner.h"
#include "engine/plan/program/dependencies.h"
#include "tests/support/plans.h"

namespace strata::test {

constexpr TierBudgets kNoLimits = {kUnlimited, kUnlimited, kUnlimited};

/// Llama-shaped, a few kilobytes per unit.
Model tiny_model(std::int64_t layers = 3, bool tied = true, std::int64_t vocabulary = 40,
                 const std::vector<std::string>& freeze = {}, Rounding rounding = Rounding::none);

struct StrategyOptions {
  Order order = Order::layer_major;
  DType precision = DType::bf16;
  std::int64_t microbatches = 3;
  bool save = false;
  std::size_t units_on_device = 0;
  bool clips = true;
  DevicePins pins = {};
  bool saves = false;
  Mesh mesh = {};
  int zero_stage = 3;
  DType reduce_dtype = DType::fp32;
  bool delays_reduction = false;
  bool shares_out_matrices = false;
  bool updates_late = false;
  bool divides_backward = false;
  Bytes piece_bytes = kUnlimited;
  PackedParameters packed = {};  ///< of a model that rounds
};
/// Each, and if its updates wait for the norm of all gradients also with late ones.
std::vector<StrategyOptions> with_late_updates(std::vector<StrategyOptions> options);
/// Each, and with the optimizer's state of the host in pieces.
std::vector<StrategyOptions> with_pieces(std::vector<StrategyOptions> options);
Strategy tiny_strategy(const Model& model, const StrategyOptions& options = {});

RunConfig tiny_config(const StrategyOptions& options = {});

/// Why the run cannot be planned; empty if it can.
std::string refusal(const RunConfig& config, const Model& model);

/// `config` with the budgets that a refusal names: "memory.host … (4096 bytes)".
RunConfig with_named_budgets(RunConfig config, const std::string& refusal);

/// Rates by which computing, links and drives take times of one order of magnitude for tiny models.
MachineRates random_rates(std::mt19937& random);

/// Those of the buffers of a kind that outlast a step.
Bytes persistent_bytes(const Program& program, BufferKind kind);

/// Contents of the persistent buffers by name, and what was saved, by step, unit or model, piece and role.
using SymbolicState = std::map<std::string, std::uint64_t>;

/// Runs the program in program order, buffers apart from one another.
SymbolicState run_in_order(const Program& program, const Rounds& rounds);
/// Runs `steps` steps of each model.
SymbolicState run_in_order(const Program& program, int steps, const SaveSchedule& saves = {});

/// Runs a placed program in a random order that lanes and dependencies allow, on shared bytes, so that a
/// missing dependency or an overlap shows as another result. With an odd seed the lane of saving is the
/// slowest.
SymbolicState run_in_random_order(const Program& placed, const Rounds& rounds, std::uint32_t seed);
SymbolicState run_in_random_order(const Program& placed, int steps, std::uint32_t seed,
                                  const SaveSchedule& saves = {});

}  // namespace strata::test
