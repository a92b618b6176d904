// A FileSystem in which the n-th operation fails, or at which the process "dies", with or without the
// machine. For one thread at a time.
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace strata::test {

enum class Fault : std::uint8_t {
  error,      ///< one operation fails, those after it (the cleaning up) work
  kill,       ///< nothing works from that operation on; what was written stays
  power_loss  ///< as kill, and after lose_unsynced() what was not synced is gone
};

/// Syncs are recorded, not done: tests are about order, not about the disk below.
class FaultyFileSystem : public FileSystem {
 public:
  static constexpr int kNever = std::numeric_limits<int>::max();

  explicit FaultyFileSystem(int fail_at = kNever, Fault fault = Fault::error)
      : fail_at_(fail_at), fault_(fault) {}

  int operations() const { return operations_; }

  int create(const std::filesystem::path& path) override {
    step("create", path);
    unsynced_files_.insert(path);
    return FileSystem::create(path);
  }
  void write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) override {
    if (operations_ == fail_at_) FileSystem::write(descriptor, bytes.first(bytes.size() / 2), path);
    step("write", path);
    FileSystem::write(descriptor, bytes, path);
  }
  void sync(int, const std::filesystem::path& path) override {
    step("sync", path);
    unsynced_files_.erase(path);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    step("rename", from);
    Rename rename{from, to, std::nullopt};
    if (std::filesystem::is_regular_file(to)) rename.replaced = read_file(to);
    FileSystem::rename(from, to);
    unsynced_renames_.push_back(std::move(rename));
  }
  void sync_folder(const std::filesystem::path& path) override {
    step("sync the folder", path);
    std::erase_if(unsynced_renames_, [&](const auto& rename) { return rename.to.parent_path() == path; });
  }
  void create_folders(const std::filesystem::path& path) override {
    step("create the folder", path);
    std::filesystem::create_directories(path);
  }
  void create_folder(const std::filesystem::path& path) override {
    step("create the folder", path);
    FileSystem::create_folder(path);
  }
  void remove_all(const std::filesystem::path& path) override {
    if (operations_ == fail_at_ && std::filesystem::is_directory(path) && !std::filesystem::is_empty(path)) {
      std::filesystem::remove_all(*std::filesystem::directory_iterator(path));  // half done
    }
    step("remove", path);
    FileSystem::remove_all(path);
  }

  /// The machine comes up again: renames of unsynced folders are undone, files that were not synced are cut
  /// to half.
  void lose_unsynced() {
    for (auto rename = unsynced_renames_.rbegin(); rename != unsynced_renames_.rend(); ++rename) {
      std::filesystem::rename(rename->to, rename->from);
      if (rename->replaced) write_file(FileSystem::real(), rename->to, *rename->replaced);
    }
    for (const auto& path : unsynced_files_) {
      if (!std::filesystem::exists(path)) continue;
      std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    }
  }

 private:
  struct Rename {
    std::filesystem::path from, to;
    std::optional<std::string> replaced;  ///< what the file `to` held
  };

  void step(const char* operation, const std::filesystem::path& path) {
    const int now = operations_++;
    if (now < fail_at_ || (now > fail_at_ && fault_ == Fault::error)) return;
    throw IoError(std::string("cannot ") + operation + " " + path.string() + ": injected failure");
  }

  int fail_at_;
  Fault fault_;
  int operations_ = 0;
  std::set<std::filesystem::path> unsynced_files_;
  std::vector<Rename> unsynced_renames_;
};

}  // namespace strata::test
