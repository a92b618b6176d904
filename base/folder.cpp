#include "base/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/watchdog.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

/// A name may come from a file that somebody else wrote.
void check_name(const fs::path& folder, const std::string& name) {
  const bool leads_elsewhere = name.empty() || name == "." || name == ".." || name.find('/') != name.npos ||
                               name.find('\0') != name.npos;
  if (!leads_elsewhere) return;
  throw SystemError(
      fmt::format("cannot use '{}' in {}: it is not the name of a file there", name, folder.string()),
      EINVAL);
}

[[noreturn]] void refuse_link(std::string_view operation, const fs::path& path) {
  throw SystemError(fmt::format("cannot {} {}: it is a symbolic link, which is not followed where Strata "
                                "makes and removes files; remove it",
                                operation, path.string()),
                    ELOOP);
}

}  // namespace

Folder::Folder(fs::path path, FileDescriptor descriptor)
    : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

Folder Folder::named(const fs::path& path) {
  const WatchedWait wait([&path] { return "opening " + path.string(); });
  FileDescriptor descriptor(::open(path.empty() ? "." : path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) throw_system_error("open the folder", path, errno);
  return {path, std::move(descriptor)};
}

Folder Folder::open(const std::string& name) const {
  return {path_ / name, open_file(name, O_PATH | O_DIRECTORY)};
}

bool Folder::make(const std::string& name, mode_t mode) const {
  const WatchedWait wait([this, &name] { return "creating " + (path_ / name).string(); });
  check_name(path_, name);
  if (::mkdirat(descriptor(), name.c_str(), mode) == 0) return true;
  if (errno != EEXIST) throw_system_error("create the folder", path_ / name, errno);
  return false;
}

FileDescriptor Folder::open_file(const std::string& name, int flags, mode_t mode) const {
  const WatchedWait wait([this, &name] { return "opening " + (path_ / name).string(); });
  check_name(path_, name);
  FileDescriptor file(::openat(descriptor(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode));
  if (file.get() >= 0) return file;
  const int error = errno;
  const std::string_view operation = (flags & O_DIRECTORY) != 0 ? "open the folder"
                                     : (flags & O_EXCL) != 0    ? "create"
                                                                : "open";
  if (error == ELOOP || error == ENOTDIR || error == EEXIST) {
    const std::optional<struct stat> found = status(name);
    if (found && S_ISLNK(found->st_mode)) refuse_link(operation, path_ / name);
  }
  throw_system_error(operation, path_ / name, error);
}

std::optional<struct stat> Folder::status(const std::string& name) const {
  const WatchedWait wait([this, &name] { return "looking for " + (path_ / name).string(); });
  check_name(path_, name);
  struct stat status {};
  if (::fstatat(descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return status;
  if (errno != ENOENT) throw_system_error("stat", path_ / name, errno);
  return std::nullopt;
}

struct stat Folder::status() const {
  const WatchedWait wait([this] { return "looking at " + path_.string(); });
  struct stat status {};
  if (::fstat(descriptor(), &status) != 0) throw_system_error("stat", path_, errno);
  return status;
}

Bytes Folder::free_bytes() const {
  const WatchedWait wait([this] { return "asking for the free space of " + path_.string(); });
  struct statvfs status {};
  if (::fstatvfs(descriptor(), &status) != 0) throw_system_error("stat the filesystem of", path_, errno);
  if (status.f_blocks == 0) return kUnlimited;
  return static_cast<Bytes>(status.f_bavail) * static_cast<Bytes>(status.f_frsize);
}

FileDescriptor Folder::open_to_read() const {
  FileDescriptor descriptor(::openat(this->descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) throw_system_error("read", path_, errno);
  return descriptor;
}

std::vector<std::string> Folder::names() const {
  const WatchedWait wait([this] { return "listing " + path_.string(); });
  FileDescriptor descriptor = open_to_read();
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(descriptor.get()), ::closedir);
  if (!list) throw_system_error("list", path_, errno);
  descriptor.release();
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(list.get());
    if (entry == nullptr && errno != 0) throw_system_error("list", path_, errno);
    if (entry == nullptr) break;
    if (std::string name = entry->d_name; name != "." && name != "..") names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

bool Folder::remove_file(const std::string& name) const {
  const WatchedWait wait([this, &name] { return "removing " + (path_ / name).string(); });
  check_name(path_, name);
  if (::unlinkat(descriptor(), name.c_str(), 0) == 0) return true;
  if (errno != ENOENT) throw_system_error("remove", path_ / name, errno);
  return false;
}

bool Folder::remove_folder(const std::string& name) const {
  const WatchedWait wait([this, &name] { return "removing " + (path_ / name).string(); });
  check_name(path_, name);
  if (::unlinkat(descriptor(), name.c_str(), AT_REMOVEDIR) == 0) return true;
  if (errno != ENOENT) throw_system_error("remove the folder", path_ / name, errno);
  return false;
}

bool Folder::remove_tree(const std::string& name) const {
  try {
    return remove_file(name);
  } catch (const SystemError& error) {
    if (error.code != EISDIR) throw;
  }
  std::optional<Folder> folder;
  try {
    folder = open(name);
  } catch (const SystemError& error) {
    if (error.code == ENOENT) return false;
    throw;
  }
  for (const std::string& entry : folder->names()) folder->remove_tree(entry);
  return remove_folder(name);
}

void Folder::rename(const std::string& from, const std::string& to) const {
  const WatchedWait wait([this, &from] { return "renaming " + (path_ / from).string(); });
  check_name(path_, from);
  check_name(path_, to);
  if (::renameat(descriptor(), from.c_str(), descriptor(), to.c_str()) == 0) return;
  throw_system_error(fmt::format("rename {} to", (path_ / from).string()), path_ / to, errno);
}

void Folder::sync() const {
  const WatchedWait wait([this] { return "syncing " + path_.string(); });
  // Some special folders cannot be synced and say EINVAL; they have nothing to lose either.
  if (::fsync(open_to_read().get()) != 0 && errno != EINVAL) throw_system_error("sync", path_, errno);
}

void Folder::check_owner() const {
  const uid_t owner = status().st_uid;
  if (owner == ::geteuid()) return;
  throw SystemError(fmt::format("cannot use {}: it belongs to user {}, and this process is user {}'s; remove "
                                "it, or name another folder",
                                path_.string(), owner, ::geteuid()),
                    EPERM);
}

}  // namespace strata
