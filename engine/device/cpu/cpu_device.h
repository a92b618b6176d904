// The CPU as a device: host memory stands for the device tier, copies are memcpy, optionally no faster than a
// given link, and kernels run on threads that all streams share. A stream performs what it is given before
// the call returns, so its events have always happened.
#pragma once

#include <memory>
#include <string>

#include "engine/device/cpu/link_throttle.h"
#include "engine/device/cpu/scratch_rules.h"
#include "engine/device/device.h"

namespace strata {

class TaskArena;

struct CpuDeviceOptions {
  int threads = 0;  ///< compute threads; 0: one per core this process may use
  LinkLimit link;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options);
  ~CpuDevice() override;

  std::string name() const override;
  bool host_addressable() const override { return true; }
  Bytes available_bytes() const override { return kUnlimited; }
  std::unique_ptr<DeviceMemory> allocate(Bytes bytes) override;
  std::unique_ptr<PinnedHostMemory> pin(std::span<std::byte> host) override;
  std::unique_ptr<Stream> make_stream() override;
  const ScratchRules& scratch_rules() const override { return scratch_rules_; }

  int threads() const;

  /// The instruction sets in use, for people.
  static std::string vector_code();

 private:
  std::unique_ptr<TaskArena> pool_;
  CpuScratchRules scratch_rules_;
  LinkThrottle to_device_;
  LinkThrottle to_host_;
};

}  // namespace strata
