#include "engine/device/cpu/cpu_device.h"

#include <fmt/format.h>

#include <cassert>

#include "engine/base/topology.h"
#include "engine/device/cpu/compute_pool.h"
#include "engine/device/cpu/cpu_kernels.h"

namespace strata {

CpuDevice::CpuDevice(const CpuDeviceOptions& options)
    : pool_(std::make_unique<ComputePool>(options.threads > 0 ? options.threads : usable_cores())),
      to_device_(options.link.to_device),
      to_host_(options.link.to_host) {}
CpuDevice::~CpuDevice() = default;

std::string CpuDevice::name() const {
  return fmt::format("cpu, {} threads", threads());
}

std::byte* CpuDevice::reserve(Bytes bytes) {
  assert(arena_.size() == 0);
  arena_ = Arena(bytes);
  return arena_.data();
}

std::unique_ptr<Kernels> CpuDevice::make_kernels() {
  return std::make_unique<CpuKernels>(*pool_);
}

void CpuDevice::copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) {
  to_device_.copy(device, host, bytes);
}

void CpuDevice::copy_to_host(std::byte* host, const std::byte* device, Bytes bytes) {
  to_host_.copy(host, device, bytes);
}

int CpuDevice::threads() const {
  return pool_->threads();
}

void CpuDevice::execute(const std::function<void()>& work) {
  pool_->execute(work);
}

}  // namespace strata
