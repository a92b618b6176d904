// The checkpoints in a folder, and the names that tell them from other files that a user keeps there:
// - step-00000100, or step-00000100-2 if that name was taken;
// - step-00000100.tmp while a checkpoint is written, or once it is being removed;
// - step-00000100.damaged if a checkpoint is damaged and was renamed;
// - set-aside, which keeps what --fresh found.
// Used by one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "engine/run/checkpoint/manifest.h"

namespace strata {

struct CheckpointEntry {
  std::filesystem::path folder;
  std::optional<Manifest> manifest;  ///< nothing: damaged
  std::string damage;                ///< what proves that it cannot be used; empty if nothing is known
  bool stays = false;                ///< it could not be removed, which was said

  Bytes bytes() const;
};

/// Whether a folder of this name is a checkpoint: whole, unfinished, being removed or set aside.
bool is_of_checkpoint(std::string_view name);

/// Newest first, those without a manifest before all. Nothing if there is no such folder. Throws IoError
/// if a manifest cannot be read: it may be that of the newest one; and UnknownVersionError.
std::vector<CheckpointEntry> list_checkpoints(FileSystem& file_system, const std::filesystem::path& path);

/// The folders alone, without a look into them, those of the most steps first.
std::vector<std::filesystem::path> checkpoint_folders(FileSystem& file_system,
                                                      const std::filesystem::path& path);

/// What saves and removals of dead runs left.
std::vector<std::filesystem::path> list_leftovers(FileSystem& file_system, const std::filesystem::path& path);

/// What no checkpoint among `entries` has, whatever the damaged ones had, and no older one ever had.
std::int64_t next_generation(const std::vector<CheckpointEntry>& entries);

/// Where the checkpoint `folder` stands until it is whole.
std::filesystem::path temporary_name(const std::filesystem::path& folder);
/// For the checkpoint after `step` steps; nothing has this name, nor its temporary one.
std::filesystem::path new_checkpoint_name(FileSystem& file_system, const std::filesystem::path& path,
                                          std::int64_t step);
/// For the folder that keeps an earlier run's checkpoints: set-aside, or set-aside-2 and so on. Nothing has
/// this name.
std::filesystem::path set_aside_name(FileSystem& file_system, const std::filesystem::path& path);
/// For a damaged checkpoint; nothing has this name.
std::filesystem::path damaged_name(FileSystem& file_system, const std::filesystem::path& folder);

}  // namespace strata
