// One checkpoint while it is written: a unit at a time, as a training step or a synchronous save hands them
// over, into a folder with a temporary name that gets its own once everything in it is on the disk. Whatever
// fails before that, nothing of it stays. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/state_access.h"

namespace strata {

/// Where the checkpoint `folder` stands until it is whole.
std::filesystem::path temporary_name(const std::filesystem::path& folder);

class CheckpointWriter {
 public:
  struct Target {
    std::filesystem::path folder;
    Manifest manifest;    ///< all of it but progress and files
    std::string failure;  ///< what an IoError says before its reason
  };

  /// `units` is the order in which add() gets them, and in which their tensors stand in the files: any, so
  /// that whoever updates units in another order need not wait to save them. `model` must outlive the writer.
  CheckpointWriter(FileSystem& file_system, const Model& model, std::vector<std::size_t> units,
                   Target target);

  /// The next unit's state of one kind, read a piece after the other. Throws IoError.
  void add(std::size_t unit, StateKind kind, const ReadState& read);
  /// Returns when the checkpoint is on the disk under its own name. The last call. REQUIRES: every unit was
  /// added in every kind. Throws IoError.
  void finish(const Progress& progress);

 private:
  /// Goes away with its content unless it was kept.
  class TemporaryFolder {
   public:
    TemporaryFolder(FileSystem& file_system, std::filesystem::path path)
        : file_system_(file_system), path_(std::move(path)) {}
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }
    void keep() { kept_ = true; }

   private:
    FileSystem& file_system_;
    std::filesystem::path path_;
    bool kept_ = false;
  };

  template <typename Action>
  void attempt(const Action& action) const;

  FileSystem& file_system_;
  const Model& model_;
  std::vector<std::size_t> units_;
  Target target_;
  TemporaryFolder temporary_;
  std::vector<std::unique_ptr<SafetensorsWriter>> files_;   ///< per kind
  std::array<std::size_t, kStateKinds.size()> added_ = {};  ///< units, per kind
};

}  // namespace strata
