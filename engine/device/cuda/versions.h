// CUDA's libraries: the versions of the build and those of this process. Any thread may call, on machines
// without a GPU too.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/library_version.h"

namespace strata {

/// CUDA's 13000 as "13.0".
inline std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Found is the driver: its own version, and that of the CUDA which it is for.
LibraryVersion cuda_version();
LibraryVersion cublaslt_version();
/// Only builds with cuDNN have this function.
LibraryVersion cudnn_version();

}  // namespace strata
