// A CPU device that notes to which experts its kernels send tokens.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/device/cpu/cpu_device.h"

namespace strata::test {

/// Each token's experts, the one with the largest logit first.
using Routes = std::vector<std::vector<std::int32_t>>;

class RoutingDevice final : public Device {
 public:
  explicit RoutingDevice(const CpuDeviceOptions& options) : cpu_(options) {}

  std::string name() const override { return "routing " + cpu_.name(); }
  bool host_addressable() const override { return true; }
  Bytes available_bytes() const override { return cpu_.available_bytes(); }
  std::unique_ptr<DeviceMemory> allocate(Bytes bytes) override { return cpu_.allocate(bytes); }
  std::unique_ptr<PinnedHostMemory> pin(std::span<std::byte> host) override { return cpu_.pin(host); }
  std::unique_ptr<Stream> make_stream() override;
  const ScratchRules& scratch_rules() const override { return cpu_.scratch_rules(); }

  /// What was noted since the last call. REQUIRES: one thread runs all lanes.
  Routes take_routes() { return std::exchange(routes_, {}); }

 private:
  CpuDevice cpu_;
  Routes routes_;
};

}  // namespace strata::test
