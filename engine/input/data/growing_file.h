// A file that grows over several runs of a program: after a crash it goes on behind what was known to be on
// the disk. One thread at a time.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/file.h"

namespace strata {

class GrowingFile {
 public:
  /// Keeps the first `bytes` of the file and nothing else; 0 makes it anew, whatever was there. Throws
  /// ConfigError if it has fewer, IoError if it cannot be written.
  GrowingFile(FileSystem& file_system, std::filesystem::path path, Bytes bytes);

  void write(std::span<const std::byte> bytes);
  template <typename T>
  void write_all(const std::vector<T>& values) {
    write(std::as_bytes(std::span(values)));
  }
  template <typename T>
  void write_value(const T& value) {
    write(std::as_bytes(std::span(&value, 1)));
  }
  /// Returns when all that was written is on the disk.
  void sync();

  const std::filesystem::path& path() const { return path_; }
  Bytes bytes() const { return bytes_; }

 private:
  FileSystem& file_system_;
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  Bytes bytes_;
};

}  // namespace strata
