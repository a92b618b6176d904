// A CPU device that keeps account of what orders the work of its streams: a stream's own order, and events
// that a stream or the host waits for. If two pieces of work touch the same memory, and one writes, they must
// have an order: without one a GPU may run them in any. Accesses by host code are not seen. Events that the
// host has waited for count for all work that is issued later.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/cpu/cpu_device.h"

namespace strata::test {

class OrderOfWork;

class OrderedDevice final : public Device {
 public:
  explicit OrderedDevice(const CpuDeviceOptions& options);
  ~OrderedDevice() override;

  std::string name() const override { return "ordered " + cpu_.name(); }
  bool host_addressable() const override { return false; }
  Bytes available_bytes() const override { return cpu_.available_bytes(); }
  std::unique_ptr<DeviceMemory> allocate(Bytes bytes) override { return cpu_.allocate(bytes); }
  std::unique_ptr<PinnedHostMemory> pin(std::span<std::byte> host) override { return cpu_.pin(host); }
  std::unique_ptr<Stream> make_stream() override;
  const ScratchRules& scratch_rules() const override { return cpu_.scratch_rules(); }

  /// The `number`-th wait of a stream for an event is left out.
  void lose_wait(std::int64_t number);
  /// Copies and kernels, and waits of streams.
  std::int64_t pieces_of_work() const;
  std::int64_t waits() const;
  /// A sentence for each of the first pairs without an order.
  std::vector<std::string> without_order() const;

 private:
  CpuDevice cpu_;
  std::unique_ptr<OrderOfWork> order_;
};

}  // namespace strata::test
