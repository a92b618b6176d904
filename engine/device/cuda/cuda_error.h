// CUDA's statuses as exceptions, and the thread's current device. For the .cpp files of this folder; kernels
// include launch.cuh, which declares check_cuda() too.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace strata {

/// Throws DeviceError "`what` (CUDA's words)" if `status` is not success, and clears the thread's last
/// error, so that a later call does not report this one again.
void check_cuda(cudaError_t status, const char* what);
void check_cublas(cublasStatus_t status, const char* what);

/// Makes `device` the calling thread's current device: what CUDA allocates and creates belongs to that one.
void use_device(int device);

}  // namespace strata
