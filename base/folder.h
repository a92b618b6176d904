// An open folder. What Strata makes and removes there goes through the descriptor, by names of one component
// each, and never through a link: only the path that a user named may have links in it. So nobody who can
// write beside us turns our work to another place, neither before a check nor between it and the use.
// Everything throws SystemError with the path, the operation and the reason. Any thread may use it.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/system_error.h"

namespace strata {

class Folder {
 public:
  /// The folder that a user named. Links on the way, and at the end, are the user's own.
  static Folder named(const std::filesystem::path& path);

  /// A folder in this one; a link by that name is refused.
  Folder open(const std::string& name) const;
  /// Makes a folder, with a mode that the umask narrows. False if something has the name already.
  bool make(const std::string& name, mode_t mode = 0777) const;
  /// Opens a file in this folder with open(2)'s `flags`; a link by that name is refused.
  FileDescriptor open_file(const std::string& name, int flags, mode_t mode = 0666) const;

  /// Tells of the name itself, also if that is a link; nothing if it is not there.
  std::optional<struct stat> status(const std::string& name) const;
  /// Tells of the folder.
  struct stat status() const;
  /// What this user may still write to its filesystem; kUnlimited if that does not tell.
  Bytes free_bytes() const;
  /// Lists everything in the folder, sorted.
  std::vector<std::string> names() const;

  /// Removes a file, or a link, but not where that leads. False if it is not there.
  bool remove_file(const std::string& name) const;
  /// Removes an empty folder. False if it is not there.
  bool remove_folder(const std::string& name) const;
  /// Removes a file or a link, or a folder with everything in it. False if it is not there.
  bool remove_tree(const std::string& name) const;
  /// Replaces `to` if it is a file, a link or an empty folder.
  void rename(const std::string& from, const std::string& to) const;
  /// Returns when the entries (made, renamed, removed) are on the disk.
  void sync() const;

  /// Throws unless the folder is this user's.
  void check_owner() const;

  /// For people: a folder can be renamed while it is open.
  const std::filesystem::path& path() const { return path_; }
  /// It names the folder (O_PATH), and asks for no permission to read it.
  int descriptor() const { return descriptor_.get(); }

 private:
  Folder(std::filesystem::path path, FileDescriptor descriptor);
  FileDescriptor open_to_read() const;

  std::filesystem::path path_;
  FileDescriptor descriptor_;
};

}  // namespace strata
