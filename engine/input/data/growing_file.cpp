#include "engine/input/data/growing_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/folder.h"
#include "base/system_error.h"
#include "base/watchdog.h"

namespace strata {
namespace {

FileDescriptor reopen(const std::filesystem::path& path, Bytes bytes) {
  const WatchedWait wait([&path] { return "opening " + path.string(); });
  FileDescriptor file =
      Folder::named(path.parent_path()).open_file(path.filename().string(), O_WRONLY | O_APPEND);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_system_error("stat", path, errno);
  if (status.st_size < bytes)
    throw ConfigError(fmt::format("{} has {} bytes, and {} were written to it: begin again", path.string(),
                                  status.st_size, bytes));
  if (::ftruncate(file.get(), bytes) != 0) throw_system_error("cut", path, errno);
  return file;
}

FileDescriptor make_anew(FileSystem& file_system, const std::filesystem::path& path) {
  file_system.remove_all(path);
  return FileDescriptor(file_system.create(path));
}

}  // namespace

GrowingFile::GrowingFile(FileSystem& file_system, std::filesystem::path path, Bytes bytes)
    : file_system_(file_system),
      path_(std::move(path)),
      descriptor_(bytes == 0 ? make_anew(file_system_, path_) : reopen(path_, bytes)),
      bytes_(bytes) {}

void GrowingFile::write(std::span<const std::byte> bytes) {
  file_system_.write(descriptor_.get(), bytes, path_);
  bytes_ += std::ssize(bytes);
}

void GrowingFile::sync() {
  file_system_.sync(descriptor_.get(), path_);
}

}  // namespace strata
