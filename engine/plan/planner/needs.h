// What a plan asks of each resource of a machine, from the program's own counts. What no plan of a run beats
// is its certificate (certificate.h).
#pragma once

#include <string>

#include "engine/plan/cost/rates.h"
#include "engine/plan/place/plan.h"

namespace strata {

/// Seconds that each resource needs for one step of a plan, if nothing else takes time.
struct StepNeeds {
  double compute = 0, h2d = 0, d2h = 0, host_memory = 0, nvme = 0;
  double longest() const;
  std::string binding() const;  ///< "compute", "h2d", "d2h", "nvme" or "host memory"
};

/// - compute: executed FLOPs / rate, or the time of the passes' kernels if they were measured.
/// - h2d, d2h: bytes / link rate.
/// - host memory: (update bytes + bytes of all links) / DRAM rate. Update bytes are StateFormat::update_bytes
/// per
///   parameter: for AdamW 28 with fp32 p, m and v, 26 with a split master, 20 or 18 with bf16 m and v.
/// - nvme: bytes read / reading rate + bytes written / writing rate, of drives that do one at a time.
/// If the run has several models, it sums up those that take part, for a round.
StepNeeds step_needs(const Plan& plan, const MachineRates& rates);

}  // namespace strata
