// The library that computes matrix products on the CPU.
#pragma once

#include "base/library_version.h"

namespace strata {

LibraryVersion onednn_version();

}  // namespace strata
