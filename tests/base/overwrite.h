// What tests damage and exchange, and Strata itself never does: a file's whole content, under its old name.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

namespace strata::test {

/// The file may be missing. Emptying an old one instead would make ext4 flush it.
inline void overwrite(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace strata::test
