// One NVIDIA GPU as a device. Any thread may call: every call makes the GPU its thread's current one first.
// Several devices of one process may be different GPUs or the same.
#pragma once

#include <memory>
#include <string>

#include "engine/device/cuda/cuda_memory.h"
#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/scratch_rules.h"
#include "engine/device/device.h"

namespace strata {

/// A sentence on why GPU `index` cannot be used, and what to do about it; empty if it can.
std::string why_no_cuda_device(int index = 0);

/// GPUs that this process sees.
int cuda_devices();

class CudaDevice final : public Device {
 public:
  /// Throws DeviceError with why_no_cuda_device(index) if there is a reason.
  explicit CudaDevice(int index = 0, const CudaLocking& locking = {});

  /// "NVIDIA H200, 140 GiB"
  std::string name() const override { return name_; }
  bool host_addressable() const override { return false; }
  /// Counts the memory that is free now.
  Bytes available_bytes() const override;
  std::unique_ptr<DeviceMemory> allocate(Bytes bytes) override;
  /// Pages that are not touched yet are touched, and come from the GPU's NUMA node if they can.
  std::unique_ptr<PinnedHostMemory> pin(std::span<std::byte> host) override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<ProductChooser> product_chooser(const CallsOfRun& calls) override;
  const ScratchRules& scratch_rules() const override { return scratch_rules_; }
  std::vector<std::string> slow_paths() const override { return slow_paths_.all(); }

  /// NUMA node of the host memory next to the GPU; -1 if the system does not say.
  int numa_node() const { return numa_node_; }

 private:
  std::unique_ptr<CudaStream> make_cuda_stream();

  int index_;
  std::string name_;
  int numa_node_ = -1;
  CudaLocking locking_;
  HostRanges host_ranges_;
  SlowPaths slow_paths_;
  MatmulAlgorithms chosen_;  ///< by ProductChoosers
  CudaScratchRules scratch_rules_;
};

}  // namespace strata
