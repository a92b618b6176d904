// A device: memory, and streams that work is issued to. The executor never looks behind this interface, so
// that the CPU and the CUDA device run the same program.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engine/device/kernels.h"
#include "engine/device/product_chooser.h"

namespace strata {

/// A copy speed limit in bytes per second for each direction; nothing: as fast as the memory goes.
struct LinkLimit {
  std::optional<double> to_device, to_host;
};

/// A point in a stream's work. Any thread may wait for it.
class Event {
 public:
  virtual ~Event() = default;
  /// Waits until everything issued before the last record has finished; false if that takes longer than
  /// `seconds`. Throws DeviceError if the device failed.
  virtual bool wait(double seconds) = 0;
  /// Time on the device between two records. REQUIRES: both have been waited for.
  virtual double seconds_since(const Event& start) const = 0;
};

/// A queue of work: what is issued runs in order. The CPU device performs it before the call returns; CUDA
/// later, and a failure then shows at a later call. One thread issues at a time.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Kernels that issue to this stream, with their own scratch.
  virtual Kernels& kernels() = 0;
  virtual void copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) = 0;
  virtual void copy_to_host(std::byte* host, const std::byte* device, Bytes bytes) = 0;

  virtual std::unique_ptr<Event> make_event() = 0;
  virtual void record(Event& event) = 0;
  /// What is issued from now on starts after the event's last record, on whichever stream of the device that
  /// was.
  virtual void wait(const Event& event) = 0;
  /// Names what is issued between the two calls for profilers.
  virtual void begin_range(const char* /*name*/) {}
  virtual void end_range() {}
};

/// Bytes of a device's memory; freed with the object.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;
  /// Bytes of it that occupy physical memory, in whole pages.
  virtual Bytes resident_bytes() const = 0;
};

/// Host memory made fit for fast copies; undone with the object.
class PinnedHostMemory {
 public:
  virtual ~PinnedHostMemory() = default;
};

class ScratchRules;

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;
  /// Whether host code may read and write the device's memory through the same pointers.
  virtual bool host_addressable() const = 0;
  /// What allocate() can give at most; kUnlimited if memory is the host's own. What kernels set up for
  /// themselves comes out of it, too.
  virtual Bytes available_bytes() const = 0;
  /// Throws DeviceError if there is not that much.
  virtual std::unique_ptr<DeviceMemory> allocate(Bytes bytes) = 0;
  /// Host memory that streams copy from and to. It must stay mapped while the object lives.
  virtual std::unique_ptr<PinnedHostMemory> pin(std::span<std::byte> host) = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  /// These hold for the kernels of its streams.
  virtual const ScratchRules& scratch_rules() const = 0;
  /// For the products of these calls; null if each has one algorithm only. The device outlives it.
  virtual std::unique_ptr<ProductChooser> product_chooser(const CallsOfRun& /*calls*/) { return nullptr; }
  /// What was met that works here but more slowly than it could: what, why, and what to do, a sentence each.
  virtual std::vector<std::string> slow_paths() const { return {}; }
};

}  // namespace strata
