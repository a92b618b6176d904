// A device that works in the background as a GPU does, and needs none. Each stream is a thread that performs
// what was issued to it. Events are tickets. Host code is told that it cannot address the device's memory.
// Arithmetic is the CPU device's. With it tests reach everything that asynchrony can break: missing waits,
// reused events, results read too early.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "engine/device/cpu/cpu_device.h"

namespace strata::test {

class QueuedDevice final : public Device {
 public:
  explicit QueuedDevice(const CpuDeviceOptions& options) : cpu_(options) {}

  std::string name() const override { return "queued " + cpu_.name(); }
  bool host_addressable() const override { return false; }
  Bytes available_bytes() const override { return cpu_.available_bytes(); }
  std::unique_ptr<DeviceMemory> allocate(Bytes bytes) override { return cpu_.allocate(bytes); }
  std::unique_ptr<PinnedHostMemory> pin(std::span<std::byte> host) override { return cpu_.pin(host); }
  std::unique_ptr<Stream> make_stream() override;
  const ScratchRules& scratch_rules() const override { return cpu_.scratch_rules(); }

  /// From now on nothing that is issued ends, as on a device that hangs.
  void hang() { hanging_ = true; }
  /// From now on what is issued fails, and the failure shows when somebody waits for it.
  void fail() { failing_ = true; }

 private:
  friend class QueuedStream;
  CpuDevice cpu_;
  std::atomic<bool> hanging_ = false, failing_ = false;
};

/// The CPU device of tests that ask for no other: a QueuedDevice if STRATA_QUEUED_DEVICE is set in the
/// environment, else a CpuDevice. With the QueuedDevice every test shows code that relies on the device being
/// done, or on the host reading the device's memory (docs/contributing/sanitizers.md).
std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options);

/// Has a stream of a QueuedDevice perform `work` in its order.
void add_work(Stream& stream, std::function<void()> work);

}  // namespace strata::test
