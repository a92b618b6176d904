// One checkpoint while it is written. A training step or a synchronous save hands over a unit at a time. The
// folder has a temporary name, and gets its own once everything in it is on the disk. If anything fails
// before, nothing of the checkpoint stays. Each rank writes files of its own into the same folder, and rank 0
// writes the rest. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/checkpoint/companions.h"
#include "engine/run/checkpoint/manifest.h"
#include "engine/run/checkpoint/safetensors.h"
#include "engine/run/checkpoint/state_access.h"

namespace strata {

/// Says that this rank does not see what rank 0 has made or found.
std::string not_shared(const std::filesystem::path& path);

/// What a rank saves of one kind of state of a unit, by its index in Model::units.
struct SavedUnit {
  std::size_t unit = 0;
  FlatRange range;
};
/// By kind of state, in the order in which they are saved.
using SaveOrder = EnumArray<StateKey, std::vector<SavedUnit>>;

class CheckpointWriter {
 public:
  struct Target {
    std::filesystem::path folder;
    Manifest manifest;                                  ///< all of it but progress, files and companions
    std::string failure;                                ///< what an IoError says before its reason
    std::shared_ptr<const Companions> companions = {};  ///< of rank 0; null: none
  };

  /// `units` has the order in which add() gets them, whole or in pieces. Their tensors stand in this order in
  /// the files. Any order will do, so that a step may save units in the order in which it updates them.
  /// `model` and `ranks` must outlive the writer. All ranks construct one together. Throws IoError.
  CheckpointWriter(FileSystem& file_system, const Model& model, SaveOrder units, Target target,
                   Communicator* ranks = nullptr);
  /// If finish() was not called, other ranks are told, as they would wait for this one.
  ~CheckpointWriter();

  /// The state of one kind that follows what was added of it: of a unit, or of as much as `next` says. `read`
  /// counts from there. What fails here, on whatever rank, is thrown by finish() of all ranks, as none waits
  /// for another before.
  void add(const SavedUnit& next, StateKey key, const ReadState& read);
  /// Returns when the checkpoint is on the disk under its own name; what it says of it is whole on rank 0.
  /// The last call. REQUIRES: all that was announced was added. Throws IoError, also for
  /// weights that are not finite, or whatever add() met.
  CheckpointEntry finish(const Progress& progress);

 private:
  /// Once it was created, which it was not before, it goes away with its content unless it was kept.
  class TemporaryFolder {
   public:
    TemporaryFolder(FileSystem& file_system, std::filesystem::path path)
        : file_system_(file_system), path_(std::move(path)) {}
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }
    void create();
    void keep() { owned_ = false; }

   private:
    FileSystem& file_system_;
    std::filesystem::path path_;
    bool owned_ = false;
  };

  template <typename Action>
  void attempt(const Action& action) const;
  template <typename Action>
  void remember_failure(const Action& action);
  void open_files();
  std::string finish_files();
  void add_companions();
  void commit(const Progress& progress, const std::vector<std::string>& files);

  FileSystem& file_system_;
  const Model& model_;
  SaveOrder units_;
  Target target_;
  Communicator* ranks_;
  TemporaryFolder temporary_;
  /// What was added: units, and elements of the next.
  struct Added {
    std::size_t units = 0;
    std::int64_t elements = 0;
  };
  /// Per kind; null of one that the model has not.
  EnumArray<StateKey, std::unique_ptr<SafetensorsWriter>> files_ = {};
  EnumArray<StateKey, Added> added_ = {};  ///< per kind
  std::exception_ptr failure_;             ///< the first of this rank
  bool finishing_ = false;
};

}  // namespace strata
