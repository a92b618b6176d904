#include "engine/device/cuda/cuda_error.h"

#include <fmt/format.h>

#include "base/error.h"
#include "engine/device/cuda/cublas_lt_library.h"

namespace strata {

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw DeviceError(
      fmt::format("{} (CUDA: {}, {})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
}

void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  throw DeviceError(fmt::format("{} (cuBLAS: {})", what, cublas_lt().status_string(status)));
}

void use_device(int device) {
  check_cuda(cudaSetDevice(device), "the GPU cannot be used");
}

}  // namespace strata
