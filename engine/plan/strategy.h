// How a model is trained: everything lowering needs besides the model, as plain values. The planner chooses what the run
// file leaves open.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/run_config.h"
#include "engine/model/compute.h"
#include "engine/plan/program.h"
#include "optim/state_format.h"

namespace strata {

/// Arrangement of ranks: data × pipeline × tensor. A rank's shard of a flat parameter is 1/data of it.
struct Mesh {
  std::int64_t data = 1, pipeline = 1, tensor = 1;
};

/// Kinds that stay on the device from their first use to their last, however little is left for others.
struct DevicePins {
  bool parameters = false, gradients = false, activations = false;
};

struct Strategy {
  Mesh mesh;
  int zero_stage = 3;
  Order order = Order::layer_major;
  DType precision = DType::bf16;
  StateFormat state_format = {};
  MicrobatchShape microbatch;
  std::int64_t microbatches = 1;             ///< of a training step: gradient accumulation
  std::int64_t validation_microbatches = 0;  ///< of a validation; 0: the run has none
  bool global_norm = true;                   ///< updates wait for the norm of all gradients
  bool saves = false;                        ///< some steps save the state, beside the next one's work
  std::vector<bool> save;                    ///< per unit: keep activations for the backward pass instead of recomputing
  DevicePins pins;
  std::vector<Tier> state;                   ///< per unit: where parameter, master, exp_avg and exp_avg_sq live
};

/// The run file's choices; order as given or layer-major, every state on the host.
Strategy make_strategy(const RunConfig& config, const Model& model);

}  // namespace strata
