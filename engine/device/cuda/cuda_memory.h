// Memory of a GPU, and host memory that a GPU copies from and to. Any thread may use either.
#pragma once

#include <span>

#include "engine/device/device.h"

namespace strata {

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

/// Pages locked in memory that the caller owns.
class CudaPinnedMemory final : public PinnedHostMemory {
 public:
  CudaPinnedMemory(int device, std::span<std::byte> host);
  ~CudaPinnedMemory() override;
  CudaPinnedMemory(const CudaPinnedMemory&) = delete;
  CudaPinnedMemory& operator=(const CudaPinnedMemory&) = delete;

 private:
  int device_;
  std::span<std::byte> host_;
};

}  // namespace strata
