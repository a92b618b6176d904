// Two profiles side by side, from the summary.json in their folders: times, peaks, traffic, and the buffers
// that one has and the other has not.
#pragma once

#include <filesystem>
#include <string>

namespace strata {

/// The page of it. Throws ConfigError that names the file if one is not there, damaged, of another version
/// or no summary, and IoError if one cannot be read.
std::string comparison_page(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace strata
