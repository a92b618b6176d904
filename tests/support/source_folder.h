// Where the tests' data lie: in the checkout that they were built from, or, on a machine that has none, where
// STRATA_SOURCE_DIR in the environment says.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace strata::test {

inline std::filesystem::path source_folder() {
  const char* variable = std::getenv("STRATA_SOURCE_DIR");
  return variable == nullptr ? STRATA_SOURCE_DIR : variable;
}

}  // namespace strata::test
