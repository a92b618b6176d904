// Files: reads and writes that either happen or throw SystemError with the path, the operation and the
// reason. Checkpoints read and write through FileSystem, so that tests can make any single operation fail, or
// the machine "die" after it. A FileSystem may be used from several threads; a reader too, as reads have no
// position; a writer by one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/block_samples.h"
#include "base/bytes.h"
#include "base/hash.h"

namespace strata {

/// The operations on a disk. The base class does them for real.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  static FileSystem& real();

  /// Creates a file for writing; returns its descriptor. Throws if there is anything by that name, a link
  /// too, and if its folder is a link.
  virtual int create(const std::filesystem::path& path);
  /// Writes all of `bytes` at the descriptor's position. `path` is for the error.
  virtual void write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path);
  /// Returns when the file's bytes are on the disk; what FileWriter reads back is read from there
  /// the next time.
  virtual void sync(int descriptor, const std::filesystem::path& path);
  /// Replaces `to` if it is a file or an empty folder.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to);
  /// Returns when the folder's entries (created, renamed, removed) are on the disk.
  virtual void sync_folder(const std::filesystem::path& path);
  /// Creates the folder and those above it, on the disk when the call returns; an existing one is fine.
  virtual void create_folders(const std::filesystem::path& path);
  /// Creates one folder. Throws if there is anything by that name.
  virtual void create_folder(const std::filesystem::path& path);
  /// Removes a file or a link, or a folder with everything in it, but nothing that a link leads to; a missing
  /// one is fine.
  virtual void remove_all(const std::filesystem::path& path);

  /// Opens a file for reading; returns its descriptor.
  virtual int open(const std::filesystem::path& path);
  virtual std::int64_t size(int descriptor, const std::filesystem::path& path);
  /// Reads what there is from `offset`, at most all of `out`; returns the number of bytes, 0 at the file's
  /// end.
  virtual std::size_t read(int descriptor, std::int64_t offset, std::span<std::byte> out,
                           const std::filesystem::path& path);
  /// Whether anything has that name, a link to nothing too. Throws if that cannot be told.
  virtual bool exists(const std::filesystem::path& path);
  /// The names in a folder, in their order.
  virtual std::vector<std::string> list(const std::filesystem::path& folder);
  /// What this user may still write to an existing folder's filesystem; kUnlimited if that does not tell.
  virtual Bytes free_bytes(const std::filesystem::path& folder);
  /// A number that existing folders share if their space is one.
  virtual std::uint64_t filesystem_of(const std::filesystem::path& folder);
};

/// An owned file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

/// A new file, written from front to back. Without finish() its content may not survive a crash.
class FileWriter {
 public:
  FileWriter(FileSystem& file_system, std::filesystem::path path);

  void write(std::span<const std::byte> bytes);
  /// Returns when everything is on the disk and was read back from there. A small file is read back whole. Of
  /// a large one the size, the end and at most 64 blocks are read back (block_samples.h). The last call.
  void finish();

  const std::filesystem::path& path() const { return path_; }
  /// Counts everything written so far.
  std::int64_t bytes() const { return bytes_; }
  std::uint64_t checksum() const { return hash_.digest(); }
  const BlockSamples& samples() const { return samples_; }

 private:
  FileSystem& file_system_;
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  StreamingHash hash_;
  BlockSamples samples_;
  std::int64_t bytes_ = 0;
};

/// Positional reads of a file whose size is taken when it is opened.
class FileReader {
 public:
  explicit FileReader(std::filesystem::path path, FileSystem& file_system = FileSystem::real());

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return size_; }
  /// Fills `out` from `offset`. Throws IoError if the file ends before that.
  void read(std::int64_t offset, std::span<std::byte> out) const;

 private:
  FileSystem* file_system_;
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::int64_t size_ = 0;
};

/// Also true of a link to nothing, and if it cannot be told, for want of permission say: opening it then
/// gives the reason. Never throws.
bool is_there(const std::filesystem::path& path);

/// Makes the folder in which `path` will be; a path without one is fine. Throws SystemError: what is wrong
/// with the folder, where opening the file would only say that it is not there.
void make_folder_of(const std::filesystem::path& path, FileSystem& file_system = FileSystem::real());

/// Cleans up after an error that is already on its way: failing to remove is not another one.
void remove_quietly(FileSystem& file_system, const std::filesystem::path& path) noexcept;

/// The whole file.
std::string read_file(const std::filesystem::path& path, FileSystem& file_system = FileSystem::real());

/// XXH3 of the whole file, read in pieces.
std::uint64_t hash_file(const FileReader& file);

/// A new file with this content, on the disk when the call returns. `path` must not matter after a crash.
void write_file(FileSystem& file_system, const std::filesystem::path& path, std::string_view content);
/// Writes this content in place of the file that is there. After a crash either the old or the new content is
/// there, whole. The new file is made as `path`.tmp. Throws if `path` is anything but a file, such as a
/// device.
void replace_file(FileSystem& file_system, const std::filesystem::path& path, std::string_view content);

}  // namespace strata
