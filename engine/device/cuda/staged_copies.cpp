#include "engine/device/cuda/staged_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "engine/device/cuda/cuda_error.h"

namespace strata {
namespace {

constexpr const char* kNotStarted = "a copy through locked buffers could not be started";

void record(const CudaEvent& event, CUstream_st* stream) {
  check_cuda(cudaEventRecord(event.handle(), stream), kNotStarted);
}

void wait(CUstream_st* stream, const CudaEvent& event) {
  check_cuda(cudaStreamWaitEvent(stream, event.handle(), 0), kNotStarted);
}

struct HostCopy {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};

void perform(void* data) {
  const std::unique_ptr<HostCopy> copy(static_cast<HostCopy*>(data));
  std::memcpy(copy->to, copy->from, copy->bytes);
}

}  // namespace

StagedCopies::StagedCopies(int device, CUstream_st* stream, Bytes buffer_bytes)
    : StagedCopies(device, stream) {  // so that what is made is given back if the rest fails
  buffer_bytes_ = buffer_bytes;
  for (Buffer& buffer : buffers_) {
    void* memory = nullptr;
    if (cudaHostAlloc(&memory, static_cast<std::size_t>(buffer_bytes), cudaHostAllocPortable) !=
        cudaSuccess) {
      cudaGetLastError();
      throw DeviceError(
          fmt::format("not even {} of host memory can be locked for the GPU: raise what may be locked "
                      "(ulimit -l, or the limit of the container or of WSL)",
                      format_bytes(buffer_bytes)));
    }
    buffer.memory = static_cast<std::byte*>(memory);
  }
  check_cuda(cudaStreamCreateWithFlags(&host_, cudaStreamNonBlocking), "a stream cannot be made");
}

StagedCopies::~StagedCopies() {
  if (host_ != nullptr) {
    cudaStreamSynchronize(host_);
    cudaStreamDestroy(host_);
  }
  for (const Buffer& buffer : buffers_) cudaFreeHost(buffer.memory);
}

void StagedCopies::copy_on_host(std::byte* to, const std::byte* from, Bytes bytes) {
  auto copy = std::make_unique<HostCopy>(HostCopy{to, from, static_cast<std::size_t>(bytes)});
  check_cuda(cudaLaunchHostFunc(host_, &perform, copy.get()), kNotStarted);
  static_cast<void>(copy.release());  // perform() deletes it
}

void StagedCopies::to_device(std::byte* device, const std::byte* host, Bytes bytes) {
  record(begun_, stream_);
  wait(host_, begun_);
  for (Bytes done = 0; done < bytes; done += buffer_bytes_) {
    const Bytes part = std::min(buffer_bytes_, bytes - done);
    Buffer& buffer = next();
    wait(host_, buffer.empty);
    copy_on_host(buffer.memory, host + done, part);
    record(buffer.full, host_);
    wait(stream_, buffer.full);
    check_cuda(cudaMemcpyAsync(device + done, buffer.memory, static_cast<std::size_t>(part),
                               cudaMemcpyHostToDevice, stream_),
               kNotStarted);
    record(buffer.empty, stream_);
  }
}

void StagedCopies::to_host(std::byte* host, const std::byte* device, Bytes bytes) {
  const CudaEvent* last = nullptr;
  for (Bytes done = 0; done < bytes; done += buffer_bytes_) {
    const Bytes part = std::min(buffer_bytes_, bytes - done);
    Buffer& buffer = next();
    wait(stream_, buffer.empty);
    check_cuda(cudaMemcpyAsync(buffer.memory, device + done, static_cast<std::size_t>(part),
                               cudaMemcpyDeviceToHost, stream_),
               kNotStarted);
    record(buffer.full, stream_);
    wait(host_, buffer.full);
    copy_on_host(host + done, buffer.memory, part);
    last = &buffer.empty;
    record(*last, host_);
  }
  wait(stream_, *last);  // what the host does has an order, so this is all of it
}

}  // namespace strata
