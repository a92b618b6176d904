// The shortest time a step can take on a machine, from the program's own counts: the figure a measured step
// is graded by.
#pragma once

#include <string>

#include "engine/plan/search/joint.h"
#include "engine/plan/search/planner.h"
#include "engine/plan/search/rates.h"

namespace strata {

/// Seconds that each resource needs for one step; nothing can make the step shorter than the largest.
struct StepBound {
  double compute = 0, h2d = 0, d2h = 0, host_memory = 0, nvme = 0;
  double seconds() const;
  std::string binding() const;  ///< "compute", "h2d", "d2h", "nvme" or "host memory"
};

/// compute: executed FLOPs / rate. h2d, d2h: bytes / link. host memory: what an update reads and writes per
/// parameter (StateFormat::update_bytes: of AdamW 28 with fp32 p, m and v, 26 with a split master, 20 or 18
/// with bf16 m and v) plus the bytes of all links, / DRAM rate. nvme: bytes read / reading rate + bytes
/// written / writing rate, of drives that do one at a time.
StepBound step_bound(const Plan& plan, const MachineRates& rates);

/// What all models that take part ask of each resource in a round.
StepBound round_bound(const JointPlan& plan, const MachineRates& rates);

}  // namespace strata
