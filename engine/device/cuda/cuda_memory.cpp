#include "engine/device/cuda/cuda_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

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

CudaPinnedMemory::CudaPinnedMemory(int device, std::span<std::byte> host, const CudaLocking& locking,
                                   HostRanges& ranges, SlowPaths& slow_paths)
    : device_(device), ranges_(ranges) {
  use_device(device);
  Bytes refused = 0;
  std::string why;
  const auto piece_bytes = static_cast<std::size_t>(locking.piece_bytes);
  for (std::size_t first = 0; first < host.size(); first += piece_bytes) {
    const std::span<std::byte> piece = host.subspan(first, std::min(piece_bytes, host.size() - first));
    if (refused == 0) {
      const cudaError_t status = cudaHostRegister(piece.data(), piece.size(), cudaHostRegisterPortable);
      if (status != cudaSuccess) {
        cudaGetLastError();
        why = cudaGetErrorString(status);
      }
    }
    // What is left of a limit is for the buffers, so no later piece is tried.
    if (!why.empty()) refused += static_cast<Bytes>(piece.size());
    pieces_.push_back({piece.data(), why.empty()});
    ranges_.add(piece, why.empty());
  }
  if (refused == 0) return;
  slow_paths.add(fmt::format(
      "{} of {} of host memory cannot be locked for the GPU (CUDA: {}), so that it is copied through "
      "buffers of {}, more slowly: raise what may be locked (ulimit -l, or the limit of the "
      "container or of WSL), or lower memory.host",
      format_bytes(refused), format_bytes(static_cast<Bytes>(host.size())), why,
      format_bytes(locking.staging_bytes)));
}

CudaPinnedMemory::~CudaPinnedMemory() {
  if (pieces_.empty()) return;
  const WatchedWait wait([] { return std::string("giving back memory that the GPU reads"); });
  cudaSetDevice(device_);
  for (const Piece& piece : pieces_) {
    ranges_.remove(piece.first);
    if (piece.is_locked) cudaHostUnregister(piece.first);
  }
}

}  // namespace strata
