// The rates that a run is planned by: of the machine that its run file names, or nominal ones.
#pragma once

#include <string>

#include "engine/plan/cost/rates.h"

namespace strata {

struct RunConfig;

/// Rates to compare plans by. They are those of the profile that the run file names (plan.machine), else
/// nominal ones, so that a plan does not depend on how busy the machine is. Only their ratios matter.
/// - CPU: 400 GFLOP/s per core in bf16, 200 in fp32, copies at 8 GB/s per core. device.flops and device.link
/// count
///   if they are slower.
/// - CUDA: an H100's 600 TFLOP/s in 16 bits, 50 in fp32, 900 overall with fp8, copies at 50 GB/s each way.
/// With
///   fp8, products are twice as fast, but attention, the head and rounding are not.
/// - Drives: 6 GB/s of reading and 4 of writing, or memory.nvme.limit.
/// Throws ConfigError if the profile cannot be read, or if the run uses drives whose rates it lacks.
MachineRates planning_rates(const RunConfig& config);

/// Whose rates planning_rates() takes without a profile: "an NVIDIA H100", "a CPU of 8 cores".
std::string nominal_device(const RunConfig& config);

}  // namespace strata
