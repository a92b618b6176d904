// What `strata --version` prints.
#pragma once

#include <string>

namespace strata {

/// "strata 0.1 (e58da2426d10)", then a line each: commit, build, vector code, and the libraries, with the
/// version of the build and the version found here. Touches no GPU. Any thread may call.
std::string version_text();

}  // namespace strata
