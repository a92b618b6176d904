// A run's checkpoints: folders <path>/step-00000100 with master.safetensors and a file of each
// moment, such as exp_avg.safetensors (fp32, by HF name, so any layout can read them), the model's config
// and tokenizer (companions.h), and a manifest. A save
// is on the disk and whole when it ends, and a crash at any moment leaves the checkpoints before it. The
// ranks of a run save into one folder, each files of its own, and as many others load them. One thread at a
// time, and one run at a time per path, which lock() sees to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/folder_lock.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/checkpoint/checkpoint_space.h"
#include "engine/run/checkpoint/checkpoint_writer.h"
#include "engine/run/checkpoint/companions.h"
#include "engine/run/checkpoint/manifest.h"
#include "engine/run/checkpoint/state_access.h"
#include "engine/run/checkpoint/stored_state.h"

namespace strata {

/// Throws ConfigError if the folder cannot be created, nothing can be written into it, or a rank does not
/// see what rank 0 writes there.
void check_checkpoint_writable(const std::filesystem::path& path,
                               FileSystem& file_system = FileSystem::real(), Communicator* ranks = nullptr);

/// Makes the folder if it is missing, and keeps others who lock that name out of it for the lock's life.
/// Throws ConfigError if one has it (naming the process), or nothing can be made in it; if the filesystem has
/// no locks, adds a warning and returns nothing.
std::unique_ptr<FolderLock> lock_checkpoints(const std::filesystem::path& path, const std::string& name,
                                             FileSystem& file_system, std::vector<std::string>& warnings);

/// How checkpoints in the folder `path` name a run file: by its path from there on, so that both may move
/// together.
std::string seen_from(const std::filesystem::path& path, const std::filesystem::path& run_file);

struct LoadedCheckpoint {
  Progress progress;
  std::filesystem::path folder;
  std::vector<std::string> warnings;  ///< newer checkpoints that are damaged, a sentence each
};

/// A checkpoint that is whole, and its state. Nothing of the state was read yet.
struct OpenCheckpoint : LoadedCheckpoint {
  StoredState state;
  Manifest manifest;
};

/// All ranks make the same calls in the same order, and an error on one is thrown by all, naming it.
class CheckpointStore {
 public:
  /// `keep` newest checkpoints stay; at least one. `ranks` is for the store alone, as checkpoints are written
  /// beside training, and must outlive it; null if there is one rank.
  CheckpointStore(std::filesystem::path path, std::int64_t keep, FileSystem& file_system = FileSystem::real(),
                  Communicator* ranks = nullptr);

  /// What each checkpoint has beside its state from now on; rank 0's count.
  void set_companions(std::shared_ptr<const Companions> companions) { companions_ = std::move(companions); }

  /// What adapters stand beside: checkpoints name it, and those that name it are loaded with it. Each rank
  /// calls it, if the model has adapters, before it saves or loads; who reads no more than adapters need not.
  void set_base(BaseWeights base) { base_ = std::move(base); }

  /// What checkpoints say of whose they are from now on: the run file as seen_from() gives it, or nothing.
  void set_run_file(std::string run_file) { run_file_ = std::move(run_file); }

  /// Keeps other runs out of the folder for the store's life, as lock_checkpoints() does. Rank 0 locks for
  /// all.
  void lock();
  /// Removes what saves of a dead run left unfinished. Call once at the start.
  void remove_leftovers();

  /// Moves all checkpoints, damaged ones too, into a folder of their own there, and says so in a warning: a
  /// run that begins anew neither loads nor removes them. Throws IoError.
  void set_aside_all();

  /// What `saves` more checkpoints of that state take beside those that are there; rank 0 is told. So it
  /// looks at those, and throws what load_newest() throws if one is of an unknown version or cannot be read.
  SpaceNeed space_needed(const Model& model, const StateAccess& state, std::int64_t saves);

  /// Whether there is room for another one, as far as rank 0, which asks, can tell after space_needed().
  bool has_space() const;

  /// Begins the checkpoint after `step` steps. `units` will be added to it in this order. Throws IoError if
  /// the disk is full or fails, here or when the checkpoint is finished. A failed checkpoint is removed with
  /// its writer. If a rank gives up in the middle, remove_leftovers() removes it. Older checkpoints are
  /// untouched.
  std::unique_ptr<CheckpointWriter> begin(const Model& model, std::int64_t step, SaveOrder units);
  /// Finishes it, then removes checkpoints beyond `keep`. All ranks have saved when it returns.
  void finish(std::unique_ptr<CheckpointWriter> checkpoint, const Progress& progress);

  /// All of that at once, with state that nothing changes meanwhile.
  void save(const Model& model, const Progress& progress, const StateAccess& state);

  /// Whether a checkpoint after `step` steps is looked for; nothing: any is.
  using WantsStep = std::function<bool(std::int64_t step)>;

  /// Loads the newest checkpoint that is whole; nothing if there is none. Padding in the state becomes
  /// zero. Only what is proven to be damaged is skipped: throws IoError if a file cannot be read. Throws
  /// ConfigError if that checkpoint holds another model, or if there are checkpoints and all are
  /// damaged. The state is written to only after everything was checked.
  std::optional<LoadedCheckpoint> load_newest(const Model& model, const StateAccess& state);
  /// As load_newest(), for a caller that reads the state a piece at a time. `model` must outlive the result.
  std::optional<OpenCheckpoint> open_newest(const Model& model, const WantsStep& wants = {});
  /// Loads the newest one that is wanted as load_newest() does, and removes newer ones, since the run takes
  /// another way from there.
  std::optional<LoadedCheckpoint> go_back(const Model& model, const StateAccess& state,
                                          const WantsStep& wants);
  /// Renames the checkpoints that load_newest() has skipped, so that they are out of the way and kept.
  void set_aside_damaged();

  /// The checkpoint that was saved or loaded last; empty: none was.
  const std::filesystem::path& newest() const { return newest_; }

  /// What the calls since the last time met that ends no run, a sentence each; on rank 0.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

 private:
  std::optional<LoadedCheckpoint> load(const Model& model, const StateAccess& state, const WantsStep& wants);
  std::vector<CheckpointEntry>& known();
  std::vector<CheckpointEntry> entries_of_first_rank();
  void remove_old();
  void remove(CheckpointEntry& entry);
  template <typename Action>
  bool try_to(const std::string& failure, const Action& action);

  std::filesystem::path path_;
  std::int64_t keep_;
  FileSystem& file_system_;
  Communicator* ranks_;
  /// Rank 0 has them from when it first looked: nobody else changes them, so a save need not read what an
  /// older one wrote.
  std::optional<std::vector<CheckpointEntry>> known_;
  std::unique_ptr<FolderLock> lock_;
  std::shared_ptr<const Companions> companions_;
  std::optional<BaseWeights> base_;
  std::string run_file_;
  std::filesystem::path newest_;
  Bytes bytes_of_one_ = 0;
  std::int64_t next_generation_ = 0;  ///< none is ever used twice
  std::vector<std::string> warnings_;
};

}  // namespace strata
