#include "base/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/host_name.h"
#include "base/nth.h"
#include "base/watchdog.h"

namespace strata {
namespace {

constexpr mode_t kMode = 0644;  // others may read whose lock it is

std::string this_process() {
  return fmt::format("process {} on {}", ::getpid(), host_name());
}

/// Whose lock it is. The owner writes that right after locking: an empty file is given a moment. Nobody
/// knows who wrote it, so a terminal gets nothing but plain characters.
std::string owner_of(const FileDescriptor& lock) {
  std::array<char, 512> text{};
  for (int attempt = 0; attempt < 20; ++attempt) {
    const ssize_t length = ::pread(lock.get(), text.data(), text.size(), 0);
    if (length > 0) {
      const auto is_special = [](char c) { return c < ' ' || c > '~'; };
      std::replace_if(text.begin(), text.begin() + length, is_special, '?');
      return {text.data(), static_cast<std::size_t>(length)};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "another process";
}

[[noreturn]] void refuse_second(const Folder& folder, const std::string& owner) {
  const bool own = owner == this_process();
  throw FolderInUseError(folder.path(), own ? fmt::format("this very process ({})", owner) : owner, own);
}

/// A write through a link, or into another name of a file elsewhere, would destroy that file.
void check_is_ours_to_write(const FileDescriptor& lock, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(lock.get(), &status) != 0) throw_system_error("stat", path, errno);
  if (S_ISREG(status.st_mode) && status.st_nlink <= 1) return;
  throw SystemError(fmt::format("cannot lock {}: it is {}; remove it", path.string(),
                                S_ISREG(status.st_mode) ? "another name of a file that lies elsewhere"
                                                        : "not a regular file"),
                    EINVAL);
}

}  // namespace

FolderInUseError::FolderInUseError(const std::filesystem::path& path, std::string its_owner, bool is_own)
    : ConfigError(fmt::format("{} is in use by {}", path.string(), its_owner)),
      owner(std::move(its_owner)),
      own(is_own) {}

FolderLock::FolderLock(Folder folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)), lock_(take()) {
  const WatchedWait wait([this] { return "locking " + (folder_.path() / name_).string(); });
  const std::string owner = this_process();
  if (::ftruncate(lock_.get(), 0) != 0 || ::pwrite(lock_.get(), owner.data(), owner.size(), 0) < 0)
    throw_system_error("write", folder_.path() / name_, errno);
}

FolderLock::~FolderLock() {
  // Failing to tidy up is no error: the next one locks the file that is there.
  try {
    if (has_its_name(lock_)) folder_.remove_file(name_);
  } catch (const SystemError&) {
  }
}

/// A process that gives up a lock removes its file. A process that opened the file meanwhile has to begin
/// again. Each time somebody else has had the lock, a hundred attempts in a row are no coincidence.
FileDescriptor FolderLock::take() const {
  constexpr int kAttempts = 100;
  const std::filesystem::path path = folder_.path() / name_;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // A pipe by that name must not make us wait.
    FileDescriptor lock = folder_.open_file(name_, O_RDWR | O_CREAT | O_NONBLOCK, kMode);
    check_is_ours_to_write(lock, path);
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) throw_system_error("lock", path, errno);
      refuse_second(folder_, owner_of(lock));
    }
    if (has_its_name(lock)) return lock;
  }
  throw SystemError(fmt::format("cannot lock {}: others replace it all the time", path.string()), EBUSY);
}

bool FolderLock::has_its_name(const FileDescriptor& lock) const {
  struct stat open {};
  if (::fstat(lock.get(), &open) != 0) throw_system_error("stat", folder_.path() / name_, errno);
  const std::optional<struct stat> named = folder_.status(name_);
  return named && named->st_ino == open.st_ino && named->st_dev == open.st_dev;
}

}  // namespace strata
