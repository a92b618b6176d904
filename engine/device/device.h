// A device: one arena of memory, lanes' kernels, and copies between the arena and host memory. The executor owns exactly one
// and never looks behind this interface, so that the CPU and the CUDA device run the same program.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/base/bytes.h"
#include "engine/device/kernels.h"

namespace strata {

/// A copy speed limit in bytes per second for each direction; nothing: as fast as the memory goes.
struct LinkLimit {
  std::optional<double> to_device, to_host;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;
  /// The device tier. Set once before the first instruction; REQUIRES: not called before.
  virtual std::byte* reserve(Bytes bytes) = 0;
  /// Kernels for one lane, with their own scratch. Threads are shared between lanes.
  virtual std::unique_ptr<Kernels> make_kernels() = 0;

  /// Return when the bytes have arrived. Each is called from its own lane's thread.
  virtual void copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) = 0;
  virtual void copy_to_host(std::byte* host, const std::byte* device, Bytes bytes) = 0;
};

}  // namespace strata
