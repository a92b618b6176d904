// A run's checkpoints: folders <path>/step-00000100 with master.safetensors, exp_avg.safetensors,
// exp_avg_sq.safetensors (fp32, by HF name, so any layout can read them) and a manifest. A save is on the
// disk and whole when it ends, and a crash at any moment leaves the checkpoints before it. The ranks of a run
// save into one folder, each files of its own, and as many others load them. One thread at a time, and one
// run at a time per path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/state_access.h"

namespace strata {

/// Throws ConfigError where the folder cannot be created, nothing can be written into it, or a rank does not
/// see what rank 0 writes there.
void check_checkpoint_writable(const std::filesystem::path& path,
                               FileSystem& file_system = FileSystem::real(), Communicator* ranks = nullptr);

struct LoadedCheckpoint {
  Progress progress;
  std::filesystem::path folder;
  std::vector<std::string> warnings;  ///< newer checkpoints that were damaged, a sentence each
};

/// All ranks make the same calls in the same order, and an error on one is thrown by all, naming it.
class CheckpointStore {
 public:
  /// `keep` newest checkpoints stay; at least one. `ranks` is for the store alone, as checkpoints are written
  /// beside training, and must outlive it; null where there is one rank.
  CheckpointStore(std::filesystem::path path, std::int64_t keep, FileSystem& file_system = FileSystem::real(),
                  Communicator* ranks = nullptr);

  /// Removes what saves of a dead run left unfinished. Call once at the start.
  void remove_leftovers();

  /// Begins the checkpoint after `step` steps, to which `units` will be added in this order. Throws IoError
  /// where the disk is full or fails, here or when it is finished; the new checkpoint is gone with its
  /// writer (or, where a rank gives up in the middle, at the latest with remove_leftovers()), and those
  /// before it are untouched.
  std::unique_ptr<CheckpointWriter> begin(const Model& model, std::int64_t step,
                                          std::vector<SavedUnit> units);
  /// Finishes it, then removes checkpoints beyond `keep`. All ranks have saved when it returns.
  void finish(std::unique_ptr<CheckpointWriter> checkpoint, const Progress& progress);

  /// All of that at once, with state that nothing changes meanwhile.
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
  std::vector<Entry> entries_of_first_rank() const;
  std::filesystem::path new_folder(std::int64_t step) const;
  void remove_old();
  void remove(const std::filesystem::path& folder);

  std::filesystem::path path_;
  std::int64_t keep_;
  FileSystem& file_system_;
  Communicator* ranks_;
  std::vector<std::filesystem::path> damaged_;  ///< found by load_newest; the next save removes them
};

}  // namespace strata
