#include "engine/input/data/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/watchdog.h"

namespace strata {
namespace {

std::string reason() {
  return std::generic_category().message(errno);
}

/// All mapped files. A thread that reads behind the end of one looks here for the file's name. That thread
/// reads a file's bytes and nothing else, so its signal handler may lock and allocate as any code.
class MappedFiles {
 public:
  void add(const MappedFile& file) {
    const std::lock_guard lock(mutex_);
    files_.insert(&file);
  }
  void remove(const MappedFile& file) {
    const std::lock_guard lock(mutex_);
    files_.erase(&file);
  }
  /// Empty if no file is there.
  std::string path_at(const std::byte* address) {
    const std::lock_guard lock(mutex_);
    for (const MappedFile* file : files_) {
      const std::byte* const begin = file->bytes().data();
      if (address >= begin && address < begin + file->bytes().size()) return file->path();
    }
    return "";
  }

  static MappedFiles& all() {
    static MappedFiles files;
    return files;
  }

 private:
  std::mutex mutex_;
  std::set<const MappedFile*> files_;
};

void (*leave_when_cut)(const std::string& sentence) = nullptr;

void on_bus_error(int signal, siginfo_t* information, void*) {
  const std::string path = MappedFiles::all().path_at(static_cast<const std::byte*>(information->si_addr));
  if (!path.empty())
    leave_when_cut(
        fmt::format("{} was cut short by another program while it was read: give it back what it had, "
                    "and start again",
                    path));
  std::signal(signal, SIG_DFL);  // the read is tried again, and ends the process
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
  MappedFiles::all().add(*this);
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  MappedFiles::all().remove(*this);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void leave_if_cut_short(void (*leave)(const std::string& sentence)) {
  leave_when_cut = leave;
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace strata
