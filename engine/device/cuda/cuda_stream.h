// Streams and events of a GPU. Work of different streams overlaps; an event orders it, and carries its time.
#pragma once

#include <memory>

#include "engine/device/cuda/host_ranges.h"
#include "engine/device/cuda/matmul.h"
#include "engine/device/device.h"
#include "engine/device/slow_paths.h"

struct CUevent_st;   // what cudaEvent_t points to
struct CUstream_st;  // what cudaStream_t points to

namespace strata {

class CudaKernels;
class StagedCopies;

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(int device);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  /// Polls, with sleeps that grow with the time waited: it never takes a core from those that compute.
  bool wait(double seconds) override;
  double seconds_since(const Event& start) const override;

  CUevent_st* handle() const { return event_; }

 private:
  int device_;
  CUevent_st* event_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  /// What is referred to outlives this object.
  CudaStream(int device, const HostRanges& host_ranges, Bytes staging_bytes, const MatmulAlgorithms& chosen,
             SlowPaths& slow_paths);
  /// Waits for what was issued.
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  /// Made at the first call, so that a stream of copies needs no scratch.
  Kernels& kernels() override;
  void copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) override;
  void copy_to_host(std::byte* host, const std::byte* device, Bytes bytes) override;

  std::unique_ptr<Event> make_event() override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  /// Ranges of NVTX, as Nsight Systems shows them. They belong to the calling thread and must nest on it.
  void begin_range(const char* name) override;
  void end_range() override;

  CUstream_st* handle() const { return stream_; }

 private:
  enum class Direction : std::uint8_t { to_device, to_host };
  /// Piece by piece of the host's memory.
  void copy(Direction direction, std::byte* device, std::byte* host, Bytes bytes);
  void copy_directly(Direction direction, std::byte* device, std::byte* host, Bytes bytes);
  /// Its buffers are locked at the first call.
  StagedCopies& staged();

  int device_;
  const HostRanges& host_ranges_;
  Bytes staging_bytes_;
  const MatmulAlgorithms& chosen_;
  SlowPaths& slow_paths_;
  CUstream_st* stream_ = nullptr;
  std::unique_ptr<CudaKernels> kernels_;
  std::unique_ptr<StagedCopies> staged_;
};

}  // namespace strata
