#include "engine/device/cuda/cuda_memory.h"

#include <fmt/format.h>

#include "base/dirty_memory.h"
#include "base/error.h"
#include "base/watchdog.h"
#include "engine/device/cuda/cuda_error.h"

namespace strata {

CudaMemory::CudaMemory(int device, Bytes bytes) : device_(device), size_(bytes) {
  if (bytes <= 0) return;
  use_device(device);
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0;
    std::size_t total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "the GPU's free memory is unknown");
    throw DeviceError(
        fmt::format("{} do not fit on GPU {}, which has {} of {} free: lower memory.device in the run file",
                    format_bytes(bytes), device, format_bytes(static_cast<Bytes>(free)),
                    format_bytes(static_cast<Bytes>(total))));
  }
  check_cuda(status, "GPU memory cannot be allocated");
  data_ = static_cast<std::byte*>(data);
  if (!memory_is_dirty()) return;
  check_cuda(cudaMemset(data, std::to_integer<int>(kDirt), static_cast<std::size_t>(bytes)),
             "GPU memory cannot be filled");
  check_cuda(cudaDeviceSynchronize(), "GPU memory cannot be filled");  // other streams do not wait for it
}

CudaMemory::~CudaMemory() {
  if (data_ == nullptr) return;
  const WatchedWait wait([] { return std::string("giving back memory of the GPU"); });
  cudaSetDevice(device_);
  cudaFree(data_);
}

CudaPinnedMemory::CudaPinnedMemory(int device, std::span<std::byte> host) : device_(device), host_(host) {
  if (host.empty()) return;
  use_device(device);
  const cudaError_t status = cudaHostRegister(host.data(), host.size(), cudaHostRegisterPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw DeviceError(
        fmt::format("{} of host memory cannot be locked for the GPU: lower memory.host in the run file",
                    format_bytes(static_cast<Bytes>(host.size()))));
  }
  check_cuda(status, "host memory cannot be locked for the GPU");
}

CudaPinnedMemory::~CudaPinnedMemory() {
  if (host_.empty()) return;
  const WatchedWait wait([] { return std::string("giving back memory that the GPU reads"); });
  cudaSetDevice(device_);
  cudaHostUnregister(host_.data());
}

}  // namespace strata
