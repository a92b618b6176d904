// A lock on a folder: a file in it that is flock'ed for the life of an object. The file says whose it is, so
// that a second run is refused with the name of the first one. The system gives the lock back however a
// process ends. On a filesystem that several machines share, it is as good as that one's flock.
#pragma once

#include <string>

#include "base/folder.h"

namespace strata {

/// "PATH is in use by OWNER"; callers that know what the folder is for add what to do.
struct FolderInUseError : ConfigError {
  FolderInUseError(const std::filesystem::path& path, std::string its_owner, bool is_own);
  std::string owner;  ///< "process 4711 on node3"
  bool own;           ///< it is this process
};

class FolderLock {
 public:
  /// Makes the file if it is missing, and locks it. Throws FolderInUseError if another process has
  /// it. Throws SystemError with ENOENT if the folder itself was removed meanwhile. Throws SystemError, too,
  /// if `name` is a link, a pipe, a folder, or another name of a file that lies elsewhere.
  FolderLock(Folder folder, std::string name);
  /// Removes the file, and gives up the lock.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  const Folder& folder() const { return folder_; }

 private:
  FileDescriptor take() const;
  bool has_its_name(const FileDescriptor& lock) const;

  Folder folder_;
  std::string name_;
  FileDescriptor lock_;
};

}  // namespace strata
