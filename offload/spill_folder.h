// A run's own folder inside one that the user named: <folder>/strata-spill/, and /strata-spill-1/ … for
// the ranks after the first. It holds a lock file, which is
// flock'ed for the run's life and names its process, and the spill files. These lose their names as soon as
// they are open, so that the system takes them back however the run ends.
#pragma once

#include <sys/types.h>

#include <string>

#include "engine/base/bytes.h"
#include "engine/base/file.h"
#include "offload/io_faults.h"
#include "offload/store.h"

namespace strata {

/// An open file for O_DIRECT. Its path is for people: nothing has that name any more.
struct SpillFile {
  std::string path;
  FileDescriptor descriptor;
};

class SpillFolder {
 public:
  /// Locks, and removes what a dead run left. Throws ConfigError where the folder is missing, another run has
  /// it (naming the process), or nothing can be made in it.
  SpillFolder(const std::string& folder, IoFaults* faults, const RankOfRun& rank = {});
  /// Removes what is left, and gives up the lock.
  ~SpillFolder();
  SpillFolder(const SpillFolder&) = delete;
  SpillFolder& operator=(const SpillFolder&) = delete;

  /// A new file whose `bytes` are reserved. Throws ConfigError where the folder cannot do O_DIRECT at
  /// kStoreAlignment or has not enough free space.
  SpillFile make_file(const std::string& name, Bytes bytes) const;

  /// As the user named it.
  const std::string& folder() const { return folder_; }
  /// Equal for folders on one filesystem.
  dev_t filesystem() const;

 private:
  std::string folder_, spill_;
  IoFaults* faults_;
  FileDescriptor lock_;
};

}  // namespace strata
