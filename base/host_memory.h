// How much memory this process may have: the machine's, or less if a container or a limit of the process
// says so.
#pragma once

#include <filesystem>

#include "base/bytes.h"

namespace strata {

/// The least of the machine's memory and the limits of the process's control groups (version 1 or 2), its own
/// and all that hold it; kUnlimited if the system says none of it. `root` stands for "/" in tests.
Bytes memory_limit(const std::filesystem::path& root = "/");

/// memory_limit(), or what the process may still map if that is less (ulimit -v).
Bytes usable_memory();

}  // namespace strata
