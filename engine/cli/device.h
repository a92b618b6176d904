// The device that a run file asks for.
#pragma once

#include <memory>

#include "engine/config/run_config.h"
#include "engine/device/device.h"
#include "engine/execute/ranks.h"
#include "engine/model/model.h"

namespace strata {

LinkLimit link_limit(const RunConfig& config);

/// Ranks of one host take its GPUs in turn. Throws ConfigError if this program was built without it,
/// DeviceError if the machine has none.
std::unique_ptr<Device> make_device(const RunConfig& config, int local_rank = 0);

/// How GPUs exchange values themselves, by NCCL; empty if the host does it for the device.
MakeDeviceGroup device_groups(const RunConfig& config);

/// What the run's kernels set up besides the plan's memory; no device is touched. Nothing is known of GPUs
/// if this program was built without CUDA. Throws ConfigError if the run is too large to plan.
std::vector<ScratchPart> kernel_scratch(const RunConfig& config, const Model& model);

/// Adds up those of them that lie in the host's memory.
Bytes in_host_memory(const RunConfig& config, const std::vector<ScratchPart>& scratch);

/// memory.device of a run on `device`: what the run file gives, or all there is beside `kernels` if that
/// is unlimited. Throws ConfigError if the device has less.
Bytes device_budget(const RunConfig& config, const Device& device, Bytes kernels);

}  // namespace strata
