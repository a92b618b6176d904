// The device that a run file asks for, and what a run takes of its machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/merge/joint.h"
#include "engine/run/execute/ranks.h"
#include "engine/run/tune/host_budget.h"
#include "engine/run/tune/request_of_run.h"

namespace strata {

struct RunConfig;

LinkLimit link_limit(const RunConfig& config);

/// "build Strata from its source with …", for what a program without CUDA says.
std::string how_to_build_cuda();

/// Ranks of one host take its GPUs in turn. Throws ConfigError if this program was built without it,
/// DeviceError if the machine has none.
std::unique_ptr<Device> make_device(const RunConfig& config, int local_rank = 0);

/// How GPUs exchange values themselves, by NCCL; empty if the host does it for the device.
MakeDeviceGroup device_groups(const RunConfig& config);

/// What a run takes of its machine besides the plan's memory: once, since its models use it in turn.
struct RunShare {
  /// What kernels set up for the model that needs most. Nothing is known of GPUs if this program was built
  /// without CUDA.
  std::vector<ScratchPart> scratch;
  HostShare host;  ///< with room to load, save and hash the largest model
};
/// No device is touched. REQUIRES: there is a model. Throws ConfigError if one is too large to plan.
RunShare share_of_run(const std::vector<ConfiguredModel>& models, const HostResources& host, int ranks);

/// memory.device of a run on `device`: what the run file gives, or all there is beside `kernels` if that
/// is unlimited. Throws ConfigError if the device has less.
Bytes device_budget(const RunConfig& config, const Device& device, Bytes kernels);

}  // namespace strata
