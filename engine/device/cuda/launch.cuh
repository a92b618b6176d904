// How .cu files reach the GPU. Kernels use only what is declared here and the built-ins of CUDA C++. So
// tests can compile the same files for the CPU: tests/cuda_emulation has a file of this name, which runs
// blocks on fibers.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace strata {

/// Throws DeviceError with CUDA's words if `status` is not success.
void check_cuda(cudaError_t status, const char* what);

/// Enqueues kernel(arguments...) on `stream`.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  // Its own status: the thread's last error may be one that a library left.
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
             "a kernel could not be started");
}

/// The dynamic shared memory of the block, aligned to 16 bytes.
template <typename T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}

}  // namespace strata
