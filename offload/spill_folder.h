// A run's own folder inside one that the user named: <folder>/strata-spill/, and /strata-spill-1/ … for
// the ranks after the first, with .user-1000 behind it where another user has that name. It holds a lock file
// (base/folder_lock.h) and the spill files. These lose their names as soon as they are open, so that the
// system takes them back however the run ends. The folder that the user named may be a link; nothing below it
// may, and what is not Strata's is never removed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/folder_lock.h"
#include "offload/io_faults.h"
#include "offload/store.h"

namespace strata {

/// What is free in these folders together, a filesystem that several lie on counted once; kUnlimited if
/// one cannot be asked.
Bytes free_for_spilling(const std::vector<std::string>& folders);

/// Whether a folder of this name may be a run's own.
bool is_spill_name(const std::string& name);

/// An open file for O_DIRECT. Its path is for people: nothing has that name any more.
struct SpillFile {
  std::string path;
  FileDescriptor descriptor;
};

class SpillFolder {
 public:
  /// Locks, and removes what a dead run left. Throws ConfigError if the folder is missing, another run has
  /// it (naming the process), nothing can be made in it, or its spill folder is a link, another user's, or
  /// holds what is not Strata's.
  SpillFolder(const std::string& folder, IoFaults* faults, const RankOfRun& rank = {});
  /// Removes what is left, and gives up the lock.
  ~SpillFolder();
  SpillFolder(const SpillFolder&) = delete;
  SpillFolder& operator=(const SpillFolder&) = delete;

  /// A new file whose `bytes` are reserved. REQUIRES: `name` is one that a later run removes as ours
  /// (kFileNames). Throws ConfigError if the folder cannot do O_DIRECT at kStoreAlignment or has not
  /// enough free space.
  SpillFile make_file(const std::string& name, Bytes bytes) const;

  /// As the user named it.
  std::string folder() const { return parent_.path().string(); }
  /// Equal for folders on one filesystem.
  dev_t filesystem() const;

 private:
  SpillFile open_new(const std::string& name) const;
  void give_size(const SpillFile& file, Bytes bytes) const;

  Folder parent_;
  std::string name_;
  IoFaults* faults_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace strata
