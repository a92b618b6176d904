// One name for a path that a user may spell in several ways.
#pragma once

#include <filesystem>

namespace strata {

/// The absolute path, without the links on its way as far as these can be followed. Nothing need be there,
/// and it never throws: a path that cannot be followed is only made absolute.
std::filesystem::path resolved(const std::filesystem::path& path);

}  // namespace strata
