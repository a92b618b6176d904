// What a command does about `train.precision: auto`: it asks this machine, the other ranks and the newest
// checkpoint, sets the key once for all, and says what it chose and why.
#pragma once

#include <string>

#include "collectives/communicator.h"
#include "engine/plan/planner/planner.h"

namespace strata {

struct Model;
struct RunConfig;

/// Whose CPU computes bf16 without instructions for it: this process's, as a rank of `world`; empty if it has
/// them.
std::string without_bf16(const Communicator* world);
/// The machine whose profile plan.machine names, if that says it; else this one.
std::string without_bf16_where_planned(const RunConfig& config);

struct AgreedPrecision {
  bool is_chosen = false;  ///< or it was given
  std::string line;        ///< for the user; empty if there is nothing to say
};

/// Sets train.precision if it is auto: that of the newest checkpoint unless the run is `fresh`, else what
/// choose_precision() says of what all ranks give as `without_bf16`. Every rank calls it; a null world is a
/// run of one rank. Throws ConfigError if ranks were given different ones, or a checkpoint cannot be read.
AgreedPrecision agree_on_precision(RunConfig& config, bool fresh, const std::string& without_bf16,
                                   Communicator* world);

/// The planner's first plans. If it refuses an fp32 that was chosen, and bf16 would fit, the error says so.
/// `precision` is that of the first model.
std::vector<Plan> plans_in(const AgreedPrecision& precision, Planner& planner);

}  // namespace strata
