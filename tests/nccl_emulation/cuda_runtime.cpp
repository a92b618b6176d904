// The functions of the CUDA runtime that nccl_rank.cpp calls, for one GPU whose memory is the host's.
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/nccl_emulation/nccl_emulation.h"

namespace {

class EmulatedStream final : public CUstream_st {
 public:
  ~EmulatedStream() override {
    add(nullptr);
    thread_.join();
  }

  void add(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }
  void wait_until_done() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return work_.empty(); });
  }

 private:
  /// Work stays in front until it is done.
  void perform() {
    std::unique_lock lock(mutex_);
    for (;; work_.pop_front(), changed_.notify_all()) {
      changed_.wait(lock, [&] { return !work_.empty(); });
      const std::function<void()>& next = work_.front();
      if (!next) return;
      lock.unlock();
      next();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::thread thread_{[this] { perform(); }};
};

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error of the emulated CUDA runtime";
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  if (*memory != nullptr) std::memset(*memory, 0xFF, bytes);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new EmulatedStream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  static_cast<EmulatedStream*>(stream)->wait_until_done();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete static_cast<EmulatedStream*>(stream);
  return cudaSuccess;
}

}  // extern "C"
