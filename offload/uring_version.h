// The library that io_uring is reached through.
#pragma once

#include "base/library_version.h"

namespace strata {

/// liburing; whether the kernel allows rings is another matter: why_no_io_uring().
LibraryVersion uring_version();

}  // namespace strata
