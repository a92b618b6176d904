// Memory of a GPU, and host memory that a GPU copies from and to. Any thread may use either.
#pragma once

#include <span>
#include <vector>

#include "engine/device/cuda/host_ranges.h"
#include "engine/device/device.h"
#include "engine/device/slow_paths.h"

namespace strata {

/// How host memory is locked for a GPU.
struct CudaLocking {
  Bytes piece_bytes = 64 * GiB;          ///< in one call at most
  Bytes smallest_piece_bytes = 1 * GiB;  ///< a refused piece is halved while it is larger
  Bytes staging_bytes =
      16 * MiB;  ///< of each of the two buffers of a stream whose memory could not be locked
};

class CudaMemory final : public DeviceMemory {
 public:
  /// Throws DeviceError that names the bytes asked for and those free.
  CudaMemory(int device, Bytes bytes);
  /// Waits for the work that uses it.
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  std::byte* data() const override { return data_; }
  Bytes resident_bytes() const override { return size_; }
  Bytes size() const { return size_; }

 private:
  int device_;
  std::byte* data_ = nullptr;
  Bytes size_;
};

/// Pages of memory that the caller owns, locked for a GPU where they can be.
class CudaPinnedMemory final : public PinnedHostMemory {
 public:
  /// Locks pieces of `piece_bytes`; a piece that the system refuses is tried again in halves. What is refused
  /// at `smallest_piece_bytes`, and all behind it, is copied through buffers of `staging_bytes`, and
  /// `slow_paths` say so. These and `ranges` outlive this object.
  CudaPinnedMemory(int device, std::span<std::byte> host, const CudaLocking& locking, HostRanges& ranges,
                   SlowPaths& slow_paths);
  ~CudaPinnedMemory() override;
  CudaPinnedMemory(const CudaPinnedMemory&) = delete;
  CudaPinnedMemory& operator=(const CudaPinnedMemory&) = delete;

 private:
  struct Piece {
    std::byte* first;
    bool is_locked;
  };
  int device_;
  HostRanges& ranges_;
  std::vector<Piece> pieces_;
};

}  // namespace strata
