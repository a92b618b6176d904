// What is wrong with a file, as a sentence that begins with its path. Plain functions.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "base/error.h"

namespace strata {

/// Throws ConfigError: the file is none of those that are read here.
[[noreturn]] inline void refuse(const std::filesystem::path& path, const std::string& sentence) {
  throw ConfigError(fmt::format("{}: {}", path.string(), sentence));
}

/// Throws DamageError: the file is not what was written.
[[noreturn]] inline void report_damage(const std::filesystem::path& path, const std::string& sentence) {
  throw DamageError(fmt::format("{}: {}", path.string(), sentence));
}

}  // namespace strata
