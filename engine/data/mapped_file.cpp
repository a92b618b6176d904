#include "engine/data/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/watchdog.h"

namespace strata {
namespace {

std::string reason() {
  return std::generic_category().message(errno);
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const WatchedWait wait([this] { return "opening " + path_; });
  // A pipe is not waited for.
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) throw ConfigError(fmt::format("cannot open {}: {}", path_, reason()));
  struct stat status {};
  if (::fstat(file.number, &status) != 0) throw IoError(fmt::format("cannot stat {}: {}", path_, reason()));
  if (!S_ISREG(status.st_mode)) throw ConfigError(fmt::format("{} is not a regular file", path_));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (memory == MAP_FAILED) {
    throw IoError(
        fmt::format("cannot map {}: {}{}", path_, reason(),
                    errno == ENOMEM ? " (with very many files, raise vm.max_map_count or join them)" : ""));
  }
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace strata
