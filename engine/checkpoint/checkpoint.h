// A run's checkpoints: folders <path>/step-00000100 with master.safetensors, exp_avg.safetensors,
// exp_avg_sq.safetensors (fp32, by HF name, so any layout can read them) and a manifest. A save is on the
// disk and whole when it returns, and a crash at any moment leaves the checkpoints before it. One thread at a
// time, and one run at a time per path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/state_access.h"

namespace strata {

/// Throws ConfigError where the folder cannot be created, or nothing can be written into it.
void check_checkpoint_writable(const std::filesystem::path& path,
                               FileSystem& file_system = FileSystem::real());

struct LoadedCheckpoint {
  Progress progress;
  std::filesystem::path folder;
  std::vector<std::string> warnings;  ///< newer checkpoints that were damaged, a sentence each
};

class CheckpointStore {
 public:
  /// `keep` newest checkpoints stay; at least one.
  CheckpointStore(std::filesystem::path path, std::int64_t keep,
                  FileSystem& file_system = FileSystem::real());

  /// Removes what saves of a dead run left unfinished. Call once at the start.
  void remove_leftovers();

  /// Saves, then removes checkpoints beyond `keep`. Throws IoError where the disk is full or fails; the new
  /// checkpoint is then gone and those before it are untouched.
  void save(const Model& model, const Progress& progress, const StateAccess& state);

  /// Loads the newest checkpoint that is whole; nothing where there is none. Padding in the state becomes
  /// zero. Throws ConfigError where that checkpoint holds another model, or where there are checkpoints and
  /// all are damaged. The state is written to only after everything was checked.
  std::optional<LoadedCheckpoint> load_newest(const Model& model, const StateAccess& state);

 private:
  struct Entry {
    std::filesystem::path folder;
    std::optional<Manifest> manifest;  ///< nothing: damaged
    std::string damage;                ///< why
  };

  std::vector<Entry> entries() const;  ///< newest first, those without a manifest before all
  std::filesystem::path new_folder(std::int64_t step) const;
  void write_folder(const std::filesystem::path& folder, const Model& model, Manifest manifest,
                    const StateAccess& state);
  void remove_old();
  void remove(const std::filesystem::path& folder);

  std::filesystem::path path_;
  std::int64_t keep_;
  FileSystem& file_system_;
  std::vector<std::filesystem::path> damaged_;  ///< found by load_newest; the next save removes them
};

}  // namespace strata
