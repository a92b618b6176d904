#include "engine/device/cpu/cpu_device.h"

#include <fmt/format.h>

#include <chrono>

#include "base/arena.h"
#include "base/task_arena.h"
#include "base/topology.h"
#include "base/vector_target.h"
#include "engine/device/cpu/cpu_kernels.h"
#include "engine/device/cpu/tile_product.h"

namespace strata {
namespace {

class CpuMemory final : public DeviceMemory {
 public:
  explicit CpuMemory(Bytes bytes) : arena_(bytes) {}
  std::byte* data() const override { return arena_.data(); }
  Bytes resident_bytes() const override { return arena_.resident_bytes(); }

 private:
  Arena arena_;
};

/// Memory that this device copies from needs no preparation.
class NothingPinned final : public PinnedHostMemory {};

class CpuEvent final : public Event {
 public:
  void record() { time_ = std::chrono::steady_clock::now(); }
  bool wait(double /*seconds*/) override { return true; }
  double seconds_since(const Event& start) const override {
    return std::chrono::duration<double>(time_ - static_cast<const CpuEvent&>(start).time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_;
};

class CpuStream final : public Stream {
 public:
  CpuStream(TaskArena& pool, const LinkThrottle& to_device, const LinkThrottle& to_host)
      : kernels_(pool), to_device_(to_device), to_host_(to_host) {}

  Kernels& kernels() override { return kernels_; }
  void copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) override {
    to_device_.copy(device, host, bytes);
  }
  void copy_to_host(std::byte* host, const std::byte* device, Bytes bytes) override {
    to_host_.copy(host, device, bytes);
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }
  void record(Event& event) override { static_cast<CpuEvent&>(event).record(); }
  void wait(const Event& /*event*/) override {}

 private:
  CpuKernels kernels_;
  const LinkThrottle& to_device_;
  const LinkThrottle& to_host_;
};

}  // namespace

CpuDevice::CpuDevice(const CpuDeviceOptions& options)
    : pool_(std::make_unique<TaskArena>(options.threads > 0 ? options.threads : usable_cores())),
      scratch_rules_(pool_->threads()),
      to_device_(options.link.to_device),
      to_host_(options.link.to_host) {
  static_cast<void>(vector_target());  // throws before a kernel could, if the environment names none
}
CpuDevice::~CpuDevice() = default;

std::string CpuDevice::name() const {
  return fmt::format("cpu, {} threads", threads());
}

std::string CpuDevice::vector_code() {
  return fmt::format("{}, matrix products with {}", name_of(vector_target()), matrix_product_instructions());
}

std::unique_ptr<DeviceMemory> CpuDevice::allocate(Bytes bytes) {
  return std::make_unique<CpuMemory>(bytes);
}

std::unique_ptr<PinnedHostMemory> CpuDevice::pin(std::span<std::byte> /*host*/) {
  return std::make_unique<NothingPinned>();
}

std::unique_ptr<Stream> CpuDevice::make_stream() {
  return std::make_unique<CpuStream>(*pool_, to_device_, to_host_);
}

int CpuDevice::threads() const {
  return pool_->threads();
}

}  // namespace strata
