#include "engine/device/cuda/versions.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "engine/device/cuda/cublas_lt_library.h"

namespace strata {
namespace {

std::string found_driver() {
  int cuda = 0;
  if (cudaDriverGetVersion(&cuda) != cudaSuccess || cuda == 0) return "no NVIDIA driver";
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed …", or "… Open Kernel Module for x86_64
  // 580.82.07  Release Build …": the version is the first word that begins with a digit.
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.front() >= '0' && word.front() <= '9')
      return fmt::format("driver {} for CUDA {}", word, cuda_version_text(cuda));
  }
  return fmt::format("a driver for CUDA {}", cuda_version_text(cuda));
}

}  // namespace

LibraryVersion cuda_version() {
  return {.name = "CUDA", .built = cuda_version_text(CUDART_VERSION), .found = found_driver()};
}

LibraryVersion cublaslt_version() {
  std::string found = "not found";
  try {
    found = dotted_version(cublas_lt().version());
  } catch (const DeviceError&) {  // products on GPUs say what is missing
  }
  return {.name = "cuBLASLt", .built = dotted_version(CUBLAS_VERSION), .found = found};
}

}  // namespace strata
