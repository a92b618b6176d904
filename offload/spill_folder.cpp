#include "offload/spill_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/watchdog.h"
#include "offload/store.h"

namespace strata {
namespace {

constexpr const char* kSpillName = "strata-spill";
constexpr mode_t kFolderMode = 0755, kLockMode = 0644;  // others may read whose lock it is
constexpr mode_t kFileMode = 0600;                      // and nobody else the model

[[noreturn]] void refuse(const std::string& action, const std::string& path, int error) {
  throw ConfigError(fmt::format("cannot {} {} for the NVMe tier: {}", action, path,
                                std::generic_category().message(error)));
}

std::string lock_path(const std::string& spill) {
  return spill + "/lock";
}

std::string this_host() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string this_process() {
  return fmt::format("process {} on {}", ::getpid(), this_host());
}

/// Whose lock it is. The owner writes that right after locking: an empty file is given a moment.
std::string owner_of(const FileDescriptor& lock) {
  std::array<char, 512> text{};
  for (int attempt = 0; attempt < 20; ++attempt) {
    const ssize_t length = ::pread(lock.get(), text.data(), text.size(), 0);
    if (length > 0) return {text.data(), static_cast<std::size_t>(length)};
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "another process";
}

[[noreturn]] void refuse_second_run(const std::string& folder, const std::string& owner) {
  if (owner == this_process()) {
    throw ConfigError(fmt::format(
        "the NVMe folder {} is in use by this very process ({}): name it once, and a folder for each rank",
        folder, owner));
  }
  throw ConfigError(fmt::format(
      "the NVMe folder {} is in use by {}: name another folder, or end that run first", folder, owner));
}

bool is_same_file(const FileDescriptor& open, const std::string& path) {
  struct stat descriptor {
  }, name{};
  return ::fstat(open.get(), &descriptor) == 0 && ::stat(path.c_str(), &name) == 0 &&
         descriptor.st_ino == name.st_ino && descriptor.st_dev == name.st_dev;
}

/// A run that ends removes the lock file and the folder: whoever opened the old one meanwhile has to begin
/// again.
FileDescriptor lock_folder(const std::string& folder, const std::string& spill) {
  const std::string path = lock_path(spill);
  for (;;) {
    if (::mkdir(spill.c_str(), kFolderMode) != 0 && errno != EEXIST) refuse("make the folder", spill, errno);
    FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kLockMode));
    if (lock.get() < 0 && errno == ENOENT) continue;
    if (lock.get() < 0) refuse("open the lock", path, errno);
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) refuse("lock", path, errno);
      refuse_second_run(folder, owner_of(lock));
    }
    if (!is_same_file(lock, path)) continue;
    const std::string owner = this_process();
    if (::ftruncate(lock.get(), 0) != 0 || ::pwrite(lock.get(), owner.data(), owner.size(), 0) < 0)
      refuse("write", path, errno);
    return lock;
  }
}

/// Everything but the lock: files that a run left when it died between making them and taking their names
/// away.
void remove_leftovers(const std::string& spill) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(spill, error)) {
    if (entry.path() == lock_path(spill)) continue;
    std::filesystem::remove_all(entry.path(), error);
    if (error) refuse("remove", entry.path().string(), error.value());
  }
  if (error) refuse("read", spill, error.value());
}

/// What ranks of a larger run left in `folder` when it died. This run's ranks share that out, so that none
/// takes another's folder, which that one is just making, for abandoned.
void remove_abandoned(const std::string& folder, const RankOfRun& rank) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    int number = -1;
    if (name.starts_with(kSpillName + std::string("-")))
      std::from_chars(name.data() + std::strlen(kSpillName) + 1, name.data() + name.size(), number);
    if (number < rank.ranks || number % rank.ranks != rank.rank) continue;
    const FileDescriptor lock(
        ::open(lock_path(entry.path().string()).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (lock.get() >= 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0)
      std::filesystem::remove_all(entry.path(), error);
  }
}

std::string advice() {
  return "free some space, lower memory.nvme.size or name another folder in memory.nvme.path";
}

[[noreturn]] void refuse_for_space(const std::string& folder, Bytes needed, const std::string& found) {
  throw ConfigError(fmt::format("the NVMe folder {} needs {} ({} bytes) and {}: {}", folder,
                                format_bytes(needed), needed, found, advice()));
}

Bytes free_bytes(const std::string& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) refuse("find the free space of", folder, errno);
  return static_cast<Bytes>(status.f_bavail) * static_cast<Bytes>(status.f_frsize);
}

void check_space(const std::string& folder, Bytes needed) {
  const Bytes free = free_bytes(folder);
  if (free < needed)
    refuse_for_space(folder, needed, fmt::format("has {} ({} bytes) free", format_bytes(free), free));
}

[[noreturn]] void refuse_direct(const std::string& folder, const std::string& reason) {
  throw ConfigError(fmt::format(
      "the NVMe folder {} cannot be read and written past the page cache ({}): name a folder on a "
      "local disk, with ext4 or xfs, in memory.nvme.path",
      folder, reason));
}

void check_alignment(const std::string& folder, const FileDescriptor& file) {
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (::statx(file.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0) return;
  if ((status.stx_mask & STATX_DIOALIGN) == 0) return;
  if (status.stx_dio_offset_align == 0) refuse_direct(folder, "no O_DIRECT");
  const Bytes alignment = std::max(status.stx_dio_offset_align, status.stx_dio_mem_align);
  if (alignment > kStoreAlignment)
    refuse_direct(folder, fmt::format("O_DIRECT is aligned to {} bytes there, at most {} are possible",
                                      alignment, kStoreAlignment));
#else
  static_cast<void>(folder), static_cast<void>(file);
#endif
}

/// The errno of making `call`, or of the fault that takes its place.
template <typename Call>
int error_of(IoFaults* faults, const char* name, const Call& call) {
  if (const int error = faults != nullptr ? faults->setup_error(name) : 0; error != 0) return error;
  return call() ? 0 : errno;
}

}  // namespace

SpillFolder::SpillFolder(const std::string& folder, IoFaults* faults, const RankOfRun& rank)
    : folder_(folder),
      spill_(fmt::format("{}/{}{}", folder, kSpillName, rank.rank > 0 ? fmt::format("-{}", rank.rank) : "")),
      faults_(faults),
      lock_(-1) {
  const WatchedWait wait([&folder] { return "preparing the NVMe folder " + folder; });
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    throw ConfigError(
        fmt::format("the NVMe folder {} cannot be used: {}; make it, or name another in memory.nvme.path",
                    folder, std::generic_category().message(errno)));
  }
  if (!S_ISDIR(status.st_mode)) refuse("use", folder, ENOTDIR);
  lock_ = lock_folder(folder_, spill_);
  remove_leftovers(spill_);
  remove_abandoned(folder_, rank);
}

SpillFolder::~SpillFolder() {
  const WatchedWait wait([this] { return "tidying up the NVMe folder " + folder_; });
  // Failing to tidy up is no error: the next run does it.
  ::unlink(lock_path(spill_).c_str());
  ::rmdir(spill_.c_str());
}

SpillFile SpillFolder::make_file(const std::string& name, Bytes bytes) const {
  const WatchedWait wait([this] { return "making a file in the NVMe folder " + folder_; });
  check_space(folder_, bytes);
  SpillFile file{spill_ + "/" + name, FileDescriptor(-1)};
  int descriptor = -1;
  const int open_error = error_of(faults_, "open", [&] {
    descriptor = ::open(file.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_DIRECT, kFileMode);
    return descriptor >= 0;
  });
  if (open_error != 0) {
    ::unlink(file.path.c_str());  // a filesystem may refuse O_DIRECT after it has made the file
    if (open_error == EINVAL) refuse_direct(folder_, "no O_DIRECT");
    refuse("make", file.path, open_error);
  }
  file.descriptor = FileDescriptor(descriptor);
  if (::unlink(file.path.c_str()) != 0) refuse("take the name of", file.path, errno);
  check_alignment(folder_, file.descriptor);
  if (bytes == 0) return file;

  const int space_error =
      error_of(faults_, "fallocate", [&] { return ::fallocate(descriptor, 0, 0, bytes) == 0; });
  if (space_error == ENOSPC || space_error == EDQUOT)
    refuse_for_space(
        folder_, bytes,
        fmt::format("there is not so much free ({})", std::generic_category().message(space_error)));
  // Some filesystems reserve nothing; there a disk that fills up is an error of the transfer that finds it.
  if (space_error == EOPNOTSUPP && ::ftruncate(descriptor, bytes) == 0) return file;
  if (space_error != 0) refuse("reserve space in", file.path, space_error);
  return file;
}

dev_t SpillFolder::filesystem() const {
  struct stat status {};
  if (::fstat(lock_.get(), &status) != 0) refuse("stat", lock_path(spill_), errno);
  return status.st_dev;
}

}  // namespace strata
