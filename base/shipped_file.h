// Files that come with the program: run files below examples/ and pages below docs/.
#pragma once

#include <string>

namespace strata {

/// Where `name` lies, such as "examples/quickstart.yaml": beside an installed program, or in the source tree
/// above a built one. Relative to the current folder if it is below it. `name` itself if it is nowhere.
std::string shipped_file(const std::string& name);

}  // namespace strata
