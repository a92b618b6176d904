// Copies between a GPU and host memory that could not be locked: through two locked buffers, one filled or
// emptied by the host while the GPU copies the other. Slower than a copy of locked memory, and as
// asynchronous as it.
#pragma once

#include <array>
#include <cstddef>

#include "base/bytes.h"
#include "engine/device/cuda/cuda_stream.h"

struct CUstream_st;  // what cudaStream_t points to

namespace strata {

/// One thread at a time, with the device current.
class StagedCopies {
 public:
  /// Throws DeviceError if not even two buffers of `buffer_bytes` can be locked. `stream` outlives this
  /// object.
  StagedCopies(int device, CUstream_st* stream, Bytes buffer_bytes);
  /// REQUIRES: the stream has done what it was given.
  ~StagedCopies();
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;

  /// REQUIRES: bytes > 0. Enqueued in the stream; host memory is read, and written, at the copy's place in
  /// it.
  void to_device(std::byte* device, const std::byte* host, Bytes bytes);
  void to_host(std::byte* host, const std::byte* device, Bytes bytes);

 private:
  struct Buffer {
    explicit Buffer(int device) : full(device), empty(device) {}
    std::byte* memory = nullptr;
    CudaEvent full, empty;
  };
  StagedCopies(int device, CUstream_st* stream)
      : stream_(stream), begun_(device), buffers_{Buffer(device), Buffer(device)} {}
  Buffer& next() { return buffers_[turn_++ % buffers_.size()]; }
  /// The host's thread of `host_` copies, in its order.
  void copy_on_host(std::byte* to, const std::byte* from, Bytes bytes);

  CUstream_st* stream_;
  CUstream_st* host_ = nullptr;  ///< what the host does
  CudaEvent begun_;
  Bytes buffer_bytes_ = 0;
  std::array<Buffer, 2> buffers_;
  std::size_t turn_ = 0;
};

}  // namespace strata
