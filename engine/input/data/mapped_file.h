// A file as read-only memory. Token files are far larger than memory may be, so the page cache holds what is
// used and nothing is read ahead of need. Immutable after construction; read from any thread. A file that
// another program cuts short while it is mapped ends the process: by SIGBUS, as it does for every user of
// mmap, or as leave_if_cut_short() says.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

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
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

/// Makes a read of a file that was cut short while it is mapped end in `leave`, which is given a sentence
/// with the file's name and must end the process. For the whole process; other causes of SIGBUS end it as
/// before.
void leave_if_cut_short(void (*leave)(const std::string& sentence));

}  // namespace strata
