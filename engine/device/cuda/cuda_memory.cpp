#include "engine/device/cuda/cuda_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/dirty_memory.h"
#include "base/error.h"
#include "base/watchdog.h"
#include "engine/device/cuda/cuda_error.h"

namespace strata {
namespace {

/// No two pieces of locked memory share a page.
constexpr Bytes kPageBytes = 4096;

}  // namespace

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
  std::string why;
  Bytes piece_bytes = locking.piece_bytes;
  std::span<std::byte> rest = host;
  while (!rest.empty()) {
    const std::span<std::byte> piece =
        rest.first(std::min(static_cast<std::size_t>(piece_bytes), rest.size()));
    const cudaError_t status = cudaHostRegister(piece.data(), piece.size(), cudaHostRegisterPortable);
    if (status != cudaSuccess) {
      cudaGetLastError();
      const auto refused = static_cast<Bytes>(piece.size());
      if (refused > locking.smallest_piece_bytes) {
        piece_bytes = std::max(align_up(refused / 2, kPageBytes), locking.smallest_piece_bytes);
        continue;
      }
      why = cudaGetErrorString(status);
      break;
    }
    pieces_.push_back({piece.data(), true});
    ranges_.add(piece, true);
    rest = rest.subspan(piece.size());
  }
  // What is left of a limit is for the buffers, so nothing behind the refused piece is tried.
  if (rest.empty()) return;
  pieces_.push_back({rest.data(), false});
  ranges_.add(rest, false);
  slow_paths.add(fmt::format(
      "{} of {} of host memory cannot be locked for the GPU (CUDA: {}) and are copied more slowly, through "
      "buffers of {}: raise the limit of locked memory (ulimit -l, the container's or WSL's), or lower "
      "memory.host",
      format_bytes(static_cast<Bytes>(rest.size())), format_bytes(static_cast<Bytes>(host.size())), why,
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
