#include "engine/tools/profile/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/nth.h"
#include "base/watchdog.h"

namespace strata {
namespace {

/// Reads a file from front to back.
class Bytewise {
 public:
  explicit Bytewise(const std::string& path) : file_(path) { buffer_.reserve(kBuffer); }

  /// The byte at `offset`, no lower than that of the call before; -1 behind the end. Throws IoError.
  int at(std::int64_t offset) {
    if (offset >= file_.size()) return -1;
    if (offset >= begin_ + std::ssize(buffer_)) {
      begin_ = offset;
      resize(buffer_, std::min<std::int64_t>(kBuffer, file_.size() - offset));
      file_.read(offset, buffer_);
    }
    return std::to_integer<int>(nth(buffer_, offset - begin_));
  }

 private:
  static constexpr std::size_t kBuffer = 1 << 20;

  FileReader file_;
  std::vector<std::byte> buffer_;
  std::int64_t begin_ = 0;
};

constexpr int kPacketTag = 0x0A;  // field 1, with a length

/// Where the packet at `offset` ends, be that behind the file; -1 if there is no packet, or no whole length.
std::int64_t end_of_packet(Bytewise& bytes, std::int64_t offset) {
  constexpr int kBits = 7, kLongest = 5;  // of a length
  std::int64_t length = 0;
  for (int i = 0; i < kLongest; ++i) {
    const int byte = bytes.at(offset + 1 + i);
    if (byte < 0) return -1;
    length |= static_cast<std::int64_t>(byte & 0x7F) << (kBits * i);
    if (byte < 0x80) return offset + 2 + i + length;
  }
  return -1;
}

int open_for_appending(const std::string& path) {
  try {
    make_folder_of(path);
  } catch (const IoError& error) {
    throw ConfigError(fmt::format("report.trace.path: {}", error.what()));
  }
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

}  // namespace

TraceFile::TraceFile(std::string path, std::string_view first_packet)
    : path_(std::move(path)), file_(open_for_appending(path_)) {
  const auto fail = [&] {
    throw ConfigError(fmt::format("report.trace.path: cannot write {}: {}", path_, std::strerror(errno)));
  };
  if (file_.get() < 0) fail();
  struct stat status = {};
  if (::fstat(file_.get(), &status) != 0) fail();
  try {
    std::int64_t end = 0;
    if (S_ISREG(status.st_mode)) {
      end = end_of_packets(status.st_size, first_packet);
      if (end < status.st_size && ::ftruncate(file_.get(), end) != 0) fail();
    }
    if (end == 0) append(first_packet);
  } catch (const IoError& error) {
    throw ConfigError(fmt::format("report.trace.path: {}", error.what()));
  }
}

/// What a process left that was killed while it wrote is a packet that ends behind the file.
std::int64_t TraceFile::end_of_packets(std::int64_t size, std::string_view first_packet) const {
  const auto refuse = [&] {
    throw ConfigError(
        fmt::format("report.trace.path: {} is not empty and no trace of Strata's; name another file", path_));
  };
  Bytewise bytes(path_);
  const auto begun = std::min<std::int64_t>(size, std::ssize(first_packet));
  for (std::int64_t i = 0; i < begun; ++i) {
    if (bytes.at(i) != static_cast<unsigned char>(nth(first_packet, i))) refuse();
  }
  std::int64_t offset = 0;
  while (offset < size) {
    if (bytes.at(offset) != kPacketTag) refuse();
    const std::int64_t end = end_of_packet(bytes, offset);
    if (end < 0 || end > size) break;
    offset = end;
  }
  return offset;
}

void TraceFile::append(std::string_view packets) {
  const WatchedWait wait([this] { return "writing " + path_; });
  while (!packets.empty()) {
    const ssize_t count = ::write(file_.get(), packets.data(), packets.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw IoError(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
    packets.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace strata
