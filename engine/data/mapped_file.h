// A file as read-only memory. Token files are far larger than memory may be, so the page cache holds what is
// used and nothing is read ahead of need. Immutable after construction; read from any thread. A file that
// another program cuts short while it is mapped kills the process with SIGBUS, as it does for every user of
// mmap.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace strata {

class MappedFile {
 public:
  /// Throws ConfigError if the file cannot be opened or is not a regular file, IoError if it cannot be
  /// mapped.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  /// The whole file; empty for an empty file.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace strata
