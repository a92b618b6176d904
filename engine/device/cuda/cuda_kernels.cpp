#include "engine/device/cuda/cuda_kernels.h"

#include "engine/device/cuda/cuda_error.h"
#include "engine/device/cuda/scratch_rules.h"
#include "engine/device/kernel_calls.h"

namespace strata {

std::byte* CudaKernels::Scratch::at_least(Bytes bytes) {
  if (memory_ == nullptr || memory_->size() < bytes) {
    check_cuda(cudaStreamSynchronize(stream_), "work on the GPU failed");
    memory_.reset();
    memory_ = std::make_unique<CudaMemory>(device_, align_up(bytes, kCudaScratchStep));
  }
  return memory_->data();
}

CudaKernels::CudaKernels(int device, CUstream_st* stream, const MatmulAlgorithms& chosen,
                         SlowPaths& slow_paths)
    : device_(device),
      scratch_(device, stream),
      context_{stream, scratch_},
      matmul_(device, chosen),
      float8_(device, matmul_, slow_paths),
      cudnn_(slow_paths) {}

CudaKernels::~CudaKernels() {
  cudaSetDevice(device_);
}

void CudaKernels::reserve_scratch(const ScratchBytes& largest) {
  use_device(device_);
  if (largest.shared > 0) scratch_.at_least(largest.shared);
}

Bytes CudaKernels::scratch_bytes() const {
  return scratch_.bytes() + matmul_.workspace_bytes();
}

void CudaKernels::run(const KernelCall& call) {
  use_device(device_);
  call.visit([this](const auto& each) { issue(each); });
}

}  // namespace strata
