// The CPU as a device: an arena of host memory stands for the device tier, copies are memcpy, optionally no
// faster than a given link, and kernels run on threads that all lanes share. copy_to_device, copy_to_host and
// each Kernels object are used from one thread each; these may run at the same time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/device/cpu/link_throttle.h"
#include "engine/device/device.h"
#include "offload/arena.h"

namespace strata {

class ComputePool;

struct CpuDeviceOptions {
  int threads = 0;  ///< compute threads; 0: one per core this process may use
  LinkLimit link;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options);
  ~CpuDevice() override;

  std::string name() const override;
  std::byte* reserve(Bytes bytes) override;
  std::unique_ptr<Kernels> make_kernels() override;
  void copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) override;
  void copy_to_host(std::byte* host, const std::byte* device, Bytes bytes) override;

  int threads() const;
  /// The device tier; empty before reserve().
  const Arena& arena() const { return arena_; }
  /// Runs `work` on the compute threads (TBB algorithms in it use them all) and returns when it is done. Any
  /// thread may call.
  void execute(const std::function<void()>& work);

 private:
  std::unique_ptr<ComputePool> pool_;
  LinkThrottle to_device_;
  LinkThrottle to_host_;
  Arena arena_;
};

}  // namespace strata
