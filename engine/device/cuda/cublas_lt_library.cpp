// Programs that emulate a GPU have a cublas_lt() of their own.
#include "engine/device/cuda/cublas_lt_library.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "base/shared_library.h"

namespace strata {
namespace {

CublasLtLibrary load() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  const std::string remedy = fmt::format("install the version that belongs to CUDA {}", CUBLAS_VER_MAJOR);
  void* library = load_library(name);
  if (library == nullptr) library = load_library(fmt::format("{}/{}", STRATA_CUDA_LIBRARIES, name));
  if (library == nullptr)
    throw DeviceError(
        fmt::format("products on GPUs need cuBLASLt: {}; install it, or add its folder to LD_LIBRARY_PATH",
                    why_not_loaded()));
  const FunctionsOf<DeviceError> cublas_lt(library, name, remedy);
  CublasLtLibrary functions{};
  cublas_lt.find("cublasLtGetVersion", functions.version);
  cublas_lt.find("cublasLtGetStatusString", functions.status_string);
  cublas_lt.find("cublasLtCreate", functions.create);
  cublas_lt.find("cublasLtDestroy", functions.destroy);
  cublas_lt.find("cublasLtMatrixLayoutInit_internal", functions.init_layout);
  cublas_lt.find("cublasLtMatmulDescInit_internal", functions.init_operation);
  cublas_lt.find("cublasLtMatmulDescSetAttribute", functions.set_of_operation);
  cublas_lt.find("cublasLtMatmulPreferenceInit_internal", functions.init_preference);
  cublas_lt.find("cublasLtMatmulPreferenceSetAttribute", functions.set_of_preference);
  cublas_lt.find("cublasLtMatmulAlgoGetHeuristic", functions.algorithms);
  cublas_lt.find("cublasLtMatmulAlgoCheck", functions.check_algorithm);
  cublas_lt.find("cublasLtMatmul", functions.multiply);
  return functions;
}

}  // namespace

const CublasLtLibrary& cublas_lt() {
  static const CublasLtLibrary library = load();
  return library;
}

}  // namespace strata
