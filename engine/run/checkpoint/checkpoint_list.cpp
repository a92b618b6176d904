#include "engine/run/checkpoint/checkpoint_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "base/system_error.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

bool is_checkpoint_name(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const std::string_view copy = name.substr(digits);
  const bool is_copy =
      copy.size() > 1 && copy[0] == '-' && copy.find_first_not_of("0123456789", 1) == copy.npos;
  return digits >= 8 && (copy.empty() || is_copy);
}

bool is_leftover_name(std::string_view name) {
  const std::string suffix = temporary_name("").string();
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  return is_checkpoint_name(name);
}

/// Folders of ours only: whatever else a user keeps there stays.
std::vector<fs::path> list(FileSystem& file_system, const fs::path& path, bool (*is_ours)(std::string_view)) {
  std::vector<fs::path> found;
  try {
    for (const std::string& name : file_system.list(path)) {
      if (is_ours(name)) found.push_back(path / name);
    }
  } catch (const SystemError& error) {
    if (!error.is_missing()) throw;
  }
  return found;
}

/// `name`, or the first of `name`-2, -3, … that nothing has.
fs::path free_name(const fs::path& name, const std::function<bool(const fs::path&)>& is_taken) {
  fs::path free = name;
  for (int copy = 2; is_taken(free); ++copy) free = fs::path(name).concat(fmt::format("-{}", copy));
  return free;
}

}  // namespace

bool is_of_checkpoint(std::string_view name) {
  return is_checkpoint_name(name.substr(0, name.find('.')));
}

Bytes CheckpointEntry::bytes() const {
  Bytes bytes = 0;
  if (manifest) {
    for (const auto* files : {&manifest->files, &manifest->companions}) {
      for (const auto& [name, file] : *files) bytes += file.bytes;
    }
  }
  return bytes;
}

std::vector<CheckpointEntry> list_checkpoints(FileSystem& file_system, const fs::path& path) {
  std::vector<CheckpointEntry> entries;
  for (const fs::path& folder : list(file_system, path, is_checkpoint_name)) {
    CheckpointEntry entry{.folder = folder, .manifest = {}, .damage = {}};
    try {
      entry.manifest = read_manifest(folder / kManifestName, file_system);
    } catch (const DamageError& error) {
      entry.damage = error.what();
    }
    entries.push_back(std::move(entry));
  }
  const auto age = [](const CheckpointEntry& entry) {
    return entry.manifest ? std::pair(entry.manifest->generation, entry.manifest->progress.counters.step)
                          : std::pair<std::int64_t, std::int64_t>(INT64_MAX, 0);
  };
  std::ranges::stable_sort(entries, std::ranges::greater(), age);
  return entries;
}

std::vector<fs::path> checkpoint_folders(FileSystem& file_system, const fs::path& path) {
  std::vector<fs::path> folders = list(file_system, path, is_checkpoint_name);
  std::ranges::reverse(folders);
  return folders;
}

std::vector<fs::path> list_leftovers(FileSystem& file_system, const fs::path& path) {
  return list(file_system, path, is_leftover_name);
}

std::int64_t next_generation(const std::vector<CheckpointEntry>& entries) {
  std::int64_t next = 0;
  std::int64_t unknown = 0;  // each may have had one that is higher than all others
  for (const CheckpointEntry& entry : entries) {
    if (entry.manifest) {
      next = std::max(next, entry.manifest->generation + 1);
    } else {
      ++unknown;
    }
  }
  return next + unknown;
}

fs::path temporary_name(const fs::path& folder) {
  return fs::path(folder).concat(".tmp");
}

fs::path new_checkpoint_name(FileSystem& file_system, const fs::path& path, std::int64_t step) {
  return free_name(path / fmt::format("step-{:08}", step), [&](const fs::path& name) {
    return file_system.exists(name) || file_system.exists(temporary_name(name));
  });
}

fs::path set_aside_name(FileSystem& file_system, const fs::path& path) {
  return free_name(path / "set-aside", [&](const fs::path& name) { return file_system.exists(name); });
}

fs::path damaged_name(FileSystem& file_system, const fs::path& folder) {
  return free_name(fs::path(folder).concat(".damaged"),
                   [&](const fs::path& name) { return file_system.exists(name); });
}

}  // namespace strata
