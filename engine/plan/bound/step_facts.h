// What every plan of a run's step has to do, whatever it chooses: what each unit's passes and update take and
// which bytes they need, read from plain programs of one microbatch. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/cost/rates.h"
#include "engine/plan/lower/strategy.h"

namespace strata {

struct Model;

struct UnitFacts {
  /// How much of its activations a unit may save.
  struct Level {
    double forward = 0, backward = 0;  ///< seconds of a microbatch's passes
    Bytes kept = 0;                    ///< of a microbatch, from its forward to its backward pass
    friend bool operator==(const Level&, const Level&) = default;
  };
  std::vector<Level> levels;
  Bytes parameter = 0;  ///< that updates make
  Bytes frozen = 0;
  Bytes gradient = 0;  ///< as an update on the host reads it
  Bytes sum = 0;       ///< of gradients, as an update on the device reads it
  Bytes summed = 0;    ///< what backward passes add gradients to
  /// What an optimizer keeps on each tier; pieces on the host are of whole pages each.
  Bytes host_state = 0, device_state = 0;
  double squares = 0, update = 0;  ///< seconds of the lane cpu, if state is on the host
  double beside_host = 0;          ///< of the lane compute besides passes, if it is there
  double beside_device = 0;        ///< and if it is on the device
  bool is_made = false;            ///< updates write parameters without reading what they were
  bool is_read_again = true;       ///< backward passes read parameters
  bool is_at_turn = false;         ///< the last unit's pass has its parameters on the device
  friend bool operator==(const UnitFacts&, const UnitFacts&) = default;

  bool trains() const { return host_state > 0 || gradient > 0; }
};

struct StepFacts {
  std::vector<UnitFacts> units;
  std::int64_t microbatches = 1;
  Bytes turn = 0;          ///< what the last unit's pass has on the device besides what it keeps
  Bytes data = 0;          ///< what a microbatch brings from outside, to the device
  Bytes losses = 0;        ///< what it brings back
  double cpu_seconds = 0;  ///< of the lane cpu for no unit
  bool global_norm = true;
};

/// REQUIRES: a strategy of one rank. Of it, what plans of a run have in common counts: neither its order nor
/// its levels, places and late updates.
StepFacts facts_of(const Model& model, const Strategy& strategy, const MachineRates& rates);

/// Seconds that a unit's passes of a microbatch take if that is saved with which they are shortest. The last
/// unit's forward pass is part of its backward pass.
double least_pass_seconds(const UnitPasses& passes, bool is_last, const MachineRates& rates);

/// Seconds that the passes of the strategy's stage take a rank in a step if nothing is made again.
double least_pass_seconds(const Model& model, const Strategy& strategy, const MachineRates& rates);

}  // namespace strata
