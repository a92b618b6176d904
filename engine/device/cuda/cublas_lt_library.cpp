// Programs that emulate a GPU have a cublas_lt() of their own.
#include "engine/device/cuda/cublas_lt_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "base/error.h"

namespace strata {
namespace {

/// For the life of the process.
class Library {
 public:
  Library() : name_(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR)), handle_(open(name_)) {
    if (handle_ == nullptr) handle_ = open(fmt::format("{}/{}", STRATA_CUDA_LIBRARIES, name_));
    if (handle_ != nullptr) return;
    throw DeviceError(fmt::format(
        "products on GPUs need cuBLASLt: {}; install it, or add its folder to LD_LIBRARY_PATH", dlerror()));
  }
  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr)
      throw DeviceError(fmt::format("{} has no {}; install the version that belongs to CUDA {}", name_, name,
                                    CUBLAS_VER_MAJOR));
  }

 private:
  static void* open(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }

  std::string name_;
  void* handle_;
};

CublasLtLibrary load() {
  const Library library;
  CublasLtLibrary functions{};
  library.find("cublasLtGetVersion", functions.version);
  library.find("cublasLtGetStatusString", functions.status_string);
  library.find("cublasLtCreate", functions.create);
  library.find("cublasLtDestroy", functions.destroy);
  library.find("cublasLtMatrixLayoutInit_internal", functions.init_layout);
  library.find("cublasLtMatmulDescInit_internal", functions.init_operation);
  library.find("cublasLtMatmulDescSetAttribute", functions.set_of_operation);
  library.find("cublasLtMatmulPreferenceInit_internal", functions.init_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", functions.set_of_preference);
  library.find("cublasLtMatmulAlgoGetHeuristic", functions.algorithms);
  library.find("cublasLtMatmulAlgoCheck", functions.check_algorithm);
  library.find("cublasLtMatmul", functions.multiply);
  return functions;
}

}  // namespace

const CublasLtLibrary& cublas_lt() {
  static const CublasLtLibrary library = load();
  return library;
}

}  // namespace strata
