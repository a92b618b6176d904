// The folder that a profile is: report.html, trace.pftrace, memory_view.pickle, summary.json.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/tools/profile/step_profile.h"

namespace strata {

/// Throws ConfigError that names `folder` if it cannot be one for a profile: there is a file, or a folder
/// with files of others, or nothing can be written there. Makes the folder.
void check_profile_folder(const std::filesystem::path& folder, FileSystem& files = FileSystem::real());

/// Writes what is planned, of ranks that do different things one profile each, and what was measured, if it
/// was; makes the folder, or replaces a profile in it. The memory view is that of the first planned one; the
/// others' are memory_view-1.pickle and so on. `run` is what the page calls it. Throws IoError.
void write_profile_folder(const std::filesystem::path& folder, const std::string& run,
                          const std::vector<StepProfile>& planned, const std::vector<StepProfile>& measured,
                          FileSystem& files = FileSystem::real());

}  // namespace strata
