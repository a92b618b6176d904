#include "offload/spill_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/watchdog.h"
#include "offload/store.h"

namespace strata {
namespace {

constexpr const char* kLockName = "lock";
/// Every name that make_file() is asked for. What else lies in a spill folder is not ours to remove.
constexpr std::array<std::string_view, 3> kFileNames = {"spill", "speed", "curve"};
constexpr mode_t kFolderMode = 0755;  // others may read whose lock it is
constexpr mode_t kFileMode = 0600;    // and nobody else the model

bool is_file_name(std::string_view name) {
  return std::ranges::find(kFileNames, name) != kFileNames.end();
}

std::string spill_name(int rank) {
  return rank > 0 ? fmt::format("strata-spill-{}", rank) : "strata-spill";
}

/// Behind the name where another user has that without it.
std::string mark_of_user() {
  return fmt::format(".user-{}", ::geteuid());
}

/// Another user's run may have been killed, and nobody else can remove its folder from a sticky one.
std::string name_in(const Folder& parent, int rank) {
  const std::string name = spill_name(rank);
  const std::optional<struct stat> there = parent.status(name);
  const bool is_of_another = there && S_ISDIR(there->st_mode) && there->st_uid != ::geteuid();
  return is_of_another ? name + mark_of_user() : name;
}

/// The rank whose spill folder has this name; -1 if it is no such folder's of this user.
int rank_of(std::string name) {
  if (name.ends_with(mark_of_user())) name.resize(name.size() - mark_of_user().size());
  const std::string prefix = spill_name(0) + "-";
  int rank = -1;
  if (name.starts_with(prefix)) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), rank);
  return name == spill_name(rank) ? rank : -1;
}

[[noreturn]] void refuse(const std::string& folder, const std::string& reason) {
  throw ConfigError(fmt::format("the NVMe folder {} cannot be used: {}", folder, reason));
}

Folder open_named(const std::string& folder) {
  try {
    return Folder::named(folder);
  } catch (const SystemError& error) {
    refuse(folder, fmt::format("{}; make it, or name another in memory.nvme.path",
                               std::generic_category().message(error.code)));
  }
}

/// A run that ends removes its lock and its folder. A process that opened the folder meanwhile has to begin
/// again. kAttempts times in a row are no coincidence.
std::unique_ptr<FolderLock> lock_folder(const Folder& parent, const std::string& name) {
  constexpr int kAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    parent.make(name, kFolderMode);
    try {
      Folder folder = parent.open(name);
      folder.check_owner();
      return std::make_unique<FolderLock>(std::move(folder), kLockName);
    } catch (const SystemError& error) {
      if (error.code != ENOENT || attempt == kAttempts) throw;
    }
  }
}

/// What a run left that died between making a file and taking its name away.
void remove_leftovers(const Folder& spill) {
  for (const std::string& name : spill.names()) {
    if (name == kLockName) continue;
    if (!is_file_name(name)) {
      throw ConfigError(fmt::format("{} holds '{}', which is not Strata's: move it elsewhere, or remove it",
                                    spill.path().string(), name));
    }
    spill.remove_file(name);
  }
}

void remove_if_abandoned(const Folder& parent, const std::string& name) {
  try {
    Folder folder = parent.open(name);
    folder.check_owner();
    if (!folder.status(kLockName)) return;  // it is just being made
    {
      const FolderLock lock(std::move(folder), kLockName);
      remove_leftovers(lock.folder());
    }
    parent.remove_folder(name);
  } catch (const Error&) {
    // It is in use, or holds what is not ours.
  }
}

/// What ranks of a larger run left in `folder` when it died. This run's ranks share that out, so that none
/// takes another's folder, which that one is just making, for abandoned.
void remove_abandoned(const Folder& parent, const RankOfRun& rank) {
  std::vector<std::string> names;
  try {
    names = parent.names();
  } catch (const SystemError&) {
    return;  // a folder that may not be listed can be used nevertheless
  }
  for (const std::string& name : names) {
    const int number = rank_of(name);
    if (number >= rank.ranks && number % rank.ranks == rank.rank) remove_if_abandoned(parent, name);
  }
}

std::string advice() {
  return "free some space, lower memory.nvme.size or name another folder in memory.nvme.path";
}

[[noreturn]] void refuse_for_space(const std::string& folder, Bytes needed, const std::string& found) {
  throw ConfigError(fmt::format("the NVMe folder {} needs {} ({} bytes) and {}: {}", folder,
                                format_bytes(needed), needed, found, advice()));
}

void check_space(const Folder& folder, Bytes needed) {
  const Bytes free = folder.free_bytes();
  if (free >= needed) return;
  refuse_for_space(folder.path().string(), needed,
                   fmt::format("has {} ({} bytes) free", format_bytes(free), free));
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

/// The errno of a fault that takes the place of `call`, or 0.
int injected(IoFaults* faults, std::string_view call) {
  return faults != nullptr ? faults->setup_error(call) : 0;
}

int reserve(int descriptor, Bytes bytes, IoFaults* faults) {
  if (const int error = injected(faults, "fallocate"); error != 0) return error;
  return ::fallocate(descriptor, 0, 0, bytes) == 0 ? 0 : errno;
}

}  // namespace

bool is_spill_name(const std::string& name) {
  return name.starts_with(spill_name(0));
}

Bytes free_for_spilling(const std::vector<std::string>& folders) {
  std::set<dev_t> counted;
  Bytes free = 0;
  for (const std::string& name : folders) {
    try {
      const Folder folder = Folder::named(name);
      if (!counted.insert(folder.status().st_dev).second) continue;
      const Bytes more = folder.free_bytes();
      if (more == kUnlimited) return kUnlimited;
      free += more;
    } catch (const SystemError&) {
      return kUnlimited;  // what is wrong with it is said where it is used
    }
  }
  return free;
}

SpillFolder::SpillFolder(const std::string& folder, IoFaults* faults, const RankOfRun& rank)
    : parent_(open_named(folder)), name_(name_in(parent_, rank.rank)), faults_(faults) {
  const WatchedWait wait([&folder] { return "preparing the NVMe folder " + folder; });
  try {
    lock_ = lock_folder(parent_, name_);
    remove_leftovers(lock_->folder());
    remove_abandoned(parent_, rank);
  } catch (const FolderInUseError& error) {
    throw ConfigError(fmt::format("the NVMe folder {} is in use by {}: {}", folder, error.owner,
                                  error.own ? "name it once, and a folder for each rank"
                                            : "name another folder, or end that run first"));
  } catch (const Error& error) {
    refuse(folder, error.what());
  }
}

SpillFolder::~SpillFolder() {
  const WatchedWait wait([this] { return "tidying up the NVMe folder " + folder(); });
  lock_.reset();
  try {
    parent_.remove_folder(name_);
  } catch (const SystemError&) {
    // Failing to tidy up is no error: the next run does it.
  }
}

SpillFile SpillFolder::make_file(const std::string& name, Bytes bytes) const {
  assert(is_file_name(name));
  const WatchedWait wait([this] { return "making a file in the NVMe folder " + folder(); });
  try {
    check_space(parent_, bytes);
    SpillFile file = open_new(name);
    check_alignment(folder(), file.descriptor);
    give_size(file, bytes);
    return file;
  } catch (const SystemError& error) {
    refuse(folder(), error.what());
  }
}

SpillFile SpillFolder::open_new(const std::string& name) const {
  const Folder& spill = lock_->folder();
  SpillFile file{(spill.path() / name).string(), FileDescriptor(-1)};
  try {
    if (const int error = injected(faults_, "open"); error != 0) throw_system_error("open", file.path, error);
    file.descriptor = spill.open_file(name, O_RDWR | O_CREAT | O_EXCL | O_DIRECT, kFileMode);
  } catch (const SystemError& error) {
    if (error.code != EINVAL) throw;
    spill.remove_file(name);  // a filesystem may refuse O_DIRECT after it has made the file
    refuse_direct(folder(), "no O_DIRECT");
  }
  spill.remove_file(name);
  return file;
}

void SpillFolder::give_size(const SpillFile& file, Bytes bytes) const {
  if (bytes == 0) return;
  const int error = reserve(file.descriptor.get(), bytes, faults_);
  if (error == ENOSPC || error == EDQUOT) {
    refuse_for_space(folder(), bytes,
                     fmt::format("there is not so much free ({})", std::generic_category().message(error)));
  }
  // Some filesystems reserve nothing; there a disk that fills up is an error of the transfer that finds it.
  if (error == EOPNOTSUPP && ::ftruncate(file.descriptor.get(), bytes) == 0) return;
  if (error != 0) throw_system_error("reserve space in", file.path, error);
}

dev_t SpillFolder::filesystem() const {
  return lock_->folder().status().st_dev;
}

}  // namespace strata
