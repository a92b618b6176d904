// The libraries that ranks exchange messages with: the versions of the build and those of this process. Any
// thread may call, before and after MPI has begun.
#pragma once

#include "base/library_version.h"

namespace strata {

LibraryVersion mpi_version();

/// Loads NCCL, unless the process has it already. Only builds whose GPUs can be ranks have this function.
LibraryVersion nccl_version();

}  // namespace strata
