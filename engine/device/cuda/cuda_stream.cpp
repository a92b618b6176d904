#include "engine/device/cuda/cuda_stream.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/watchdog.h"
#include "engine/device/cuda/cuda_error.h"
#include "engine/device/cuda/cuda_kernels.h"
#include "engine/device/cuda/staged_copies.h"

namespace strata {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds kShortestSleep{5e-6};
/// A step waits for its end, and an offloaded unit on each way: each wait may be late by this.
constexpr Seconds kLongestSleep{5e-5};
/// A sleep is this share of the time waited so far: what it adds to a wait.
constexpr double kSleepShare = 0.1;

const CudaEvent& as_cuda(const Event& event) {
  return static_cast<const CudaEvent&>(event);
}

}  // namespace

CudaEvent::CudaEvent(int device) : device_(device) {
  use_device(device);
  check_cuda(cudaEventCreate(&event_), "an event cannot be made");
}

CudaEvent::~CudaEvent() {
  cudaSetDevice(device_);
  cudaEventDestroy(event_);
}

bool CudaEvent::wait(double seconds) {
  use_device(device_);
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaSuccess) return true;
    if (status != cudaErrorNotReady) check_cuda(status, "work on the GPU failed");
    cudaGetLastError();  // "not ready" is kept as the thread's last error, and is none
    const Seconds waited = std::chrono::steady_clock::now() - start;
    if (waited.count() >= seconds) return false;
    std::this_thread::sleep_for(std::clamp(waited * kSleepShare, kShortestSleep, kLongestSleep));
  }
}

double CudaEvent::seconds_since(const Event& start) const {
  use_device(device_);
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, as_cuda(start).event_, event_),
             "the time between events is unknown");
  return static_cast<double>(milliseconds) * 1e-3;
}

CudaStream::CudaStream(int device, const HostRanges& host_ranges, Bytes staging_bytes,
                       const MatmulAlgorithms& chosen, SlowPaths& slow_paths)
    : device_(device),
      host_ranges_(host_ranges),
      staging_bytes_(staging_bytes),
      chosen_(chosen),
      slow_paths_(slow_paths) {
  use_device(device);
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream cannot be made");
}

CudaStream::~CudaStream() {
  const WatchedWait wait([] { return std::string("the end of what the GPU was given"); });
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_);
  kernels_.reset();
  staged_.reset();
  cudaStreamDestroy(stream_);
}

Kernels& CudaStream::kernels() {
  if (!kernels_) kernels_ = std::make_unique<CudaKernels>(device_, stream_, chosen_, slow_paths_);
  return *kernels_;
}

void CudaStream::copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) {
  copy(Direction::to_device, device, const_cast<std::byte*>(host), bytes);
}

void CudaStream::copy_to_host(std::byte* host, const std::byte* device, Bytes bytes) {
  copy(Direction::to_host, const_cast<std::byte*>(device), host, bytes);
}

void CudaStream::copy(Direction direction, std::byte* device, std::byte* host, Bytes bytes) {
  if (bytes == 0) return;
  use_device(device_);
  while (bytes > 0) {
    const HostRanges::Run run = host_ranges_.first_run(host, bytes);
    if (!run.is_staged) {
      copy_directly(direction, device, host, run.bytes);
    } else if (direction == Direction::to_device) {
      staged().to_device(device, host, run.bytes);
    } else {
      staged().to_host(host, device, run.bytes);
    }
    device += run.bytes;
    host += run.bytes;
    bytes -= run.bytes;
  }
}

void CudaStream::copy_directly(Direction direction, std::byte* device, std::byte* host, Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  if (direction == Direction::to_device) {
    check_cuda(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, stream_),
               "a copy to the GPU could not be started");
  } else {
    check_cuda(cudaMemcpyAsync(host, device, size, cudaMemcpyDeviceToHost, stream_),
               "a copy from the GPU could not be started");
  }
}

StagedCopies& CudaStream::staged() {
  if (!staged_) staged_ = std::make_unique<StagedCopies>(device_, stream_, staging_bytes_);
  return *staged_;
}

std::unique_ptr<Event> CudaStream::make_event() {
  return std::make_unique<CudaEvent>(device_);
}

void CudaStream::record(Event& event) {
  use_device(device_);
  check_cuda(cudaEventRecord(as_cuda(event).handle(), stream_), "an event could not be recorded");
}

void CudaStream::wait(const Event& event) {
  use_device(device_);
  check_cuda(cudaStreamWaitEvent(stream_, as_cuda(event).handle(), 0),
             "a stream could not wait for an event");
}

void CudaStream::begin_range(const char* name) {
  nvtxRangePushA(name);
}

void CudaStream::end_range() {
  nvtxRangePop();
}

}  // namespace strata
