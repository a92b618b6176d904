// A library that the program was built with, by the words of `strata --version`.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace strata {

struct LibraryVersion {
  std::string name;   ///< "NCCL"
  std::string built;  ///< the version that the program was compiled with, "2.27.3"
  std::string found;  ///< the version that this process has loaded, or why there is none: "not found"
};

/// NVIDIA's 91900 as "9.19.0".
inline std::string dotted_version(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace strata
