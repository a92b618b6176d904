// A file of a trace that grows while a run goes on. What is in it stays: a run that goes on appends to the
// trace of the run before, whose process may have been killed while it wrote.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace strata {

class TraceFile {
 public:
  /// Makes the file, with its folder, or goes on behind the last whole packet in it. A trace begins with
  /// `first_packet`, which is written if there is none yet. Throws ConfigError that names `path` if it cannot
  /// be written, or holds something else.
  TraceFile(std::string path, std::string_view first_packet);

  /// Appends packets with one write. Throws IoError.
  void append(std::string_view packets);

 private:
  std::int64_t end_of_packets(std::int64_t size, std::string_view first_packet) const;

  std::string path_;
  FileDescriptor file_;
};

}  // namespace strata
