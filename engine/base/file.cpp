#include "engine/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

#include "engine/base/bytes.h"
#include "engine/base/error.h"
#include "engine/base/watchdog.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(std::string_view operation, const fs::path& path, int error) {
  const char* advice =
      error == ENOSPC || error == EDQUOT ? "; free some space there or choose another path" : "";
  throw IoError(fmt::format("cannot {} {}: {}{}", operation, path.string(),
                            std::generic_category().message(error), advice));
}

/// No single call moves more, so that a slow drive is seen to advance.
constexpr std::size_t kMostAtOnce = 64 * MiB;

int open_to_read(const fs::path& path, int flags = 0) {
  const WatchedWait wait([&path] { return "opening " + path.string(); });
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) fail("open", path, errno);
  return descriptor;
}

std::int64_t size_of_file(int descriptor, const fs::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail("stat", path, errno);
  if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
  return status.st_size;
}

/// The file's bytes reach the disk a piece after the other: all at once would show no advance, and a large
/// file on a slow disk takes long. Whatever this misses, or fails to do, is left to fsync.
void sync_pieces(int descriptor, WatchedWait& wait) {
  constexpr Bytes kPiece = 256 * MiB;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return;
  for (Bytes offset = 0; offset < status.st_size; offset += kPiece) {
    constexpr unsigned kDone =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (::sync_file_range(descriptor, offset, kPiece, kDone) != 0) return;
    wait.advance();
  }
}

}  // namespace

FileSystem& FileSystem::real() {
  static FileSystem file_system;
  return file_system;
}

int FileSystem::create(const fs::path& path) {
  constexpr mode_t kMode = 0666;  // the user's umask narrows it
  const WatchedWait wait([&path] { return "creating " + path.string(); });
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (descriptor < 0) fail("create", path, errno);
  return descriptor;
}

void FileSystem::write(int descriptor, std::span<const std::byte> bytes, const fs::path& path) {
  WatchedWait wait([&path] { return "writing " + path.string(); });
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path, errno);
    wait.advance();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileSystem::sync(int descriptor, const fs::path& path) {
  WatchedWait wait([&path] { return "syncing " + path.string(); });
  sync_pieces(descriptor, wait);
  // Some special files cannot be synced and say EINVAL; they have nothing to lose either.
  if (::fsync(descriptor) != 0 && errno != EINVAL) fail("sync", path, errno);
}

void FileSystem::rename(const fs::path& from, const fs::path& to) {
  const WatchedWait wait([&from] { return "renaming " + from.string(); });
  if (::rename(from.c_str(), to.c_str()) != 0) fail(fmt::format("rename {} to", from.string()), to, errno);
}

void FileSystem::sync_folder(const fs::path& path) {
  const WatchedWait wait([&path] { return "syncing " + path.string(); });
  const FileDescriptor folder(open_to_read(path.empty() ? fs::path(".") : path, O_DIRECTORY));
  if (::fsync(folder.get()) != 0 && errno != EINVAL) fail("sync", path, errno);
}

void FileSystem::create_folders(const fs::path& path) {
  const WatchedWait wait([&path] { return "making the folder " + path.string(); });
  const fs::path absolute = fs::absolute(path).lexically_normal();
  fs::path existing = absolute;
  while (!is_there(existing) && existing.has_relative_path()) existing = existing.parent_path();
  std::error_code error;
  fs::create_directories(absolute, error);
  if (error) fail("create the folder", path, error.value());
  for (fs::path folder = absolute; folder != existing; folder = folder.parent_path())
    sync_folder(folder.parent_path());
}

void FileSystem::remove_all(const fs::path& path) {
  const WatchedWait wait([&path] { return "removing " + path.string(); });
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail("remove", path, error.value());
}

FileDescriptor::~FileDescriptor() {
  if (descriptor_ < 0) return;
  const WatchedWait wait([] { return std::string("closing a file"); });  // a file server is told all of it
  ::close(descriptor_);
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileWriter::FileWriter(FileSystem& file_system, fs::path path)
    : file_system_(file_system), path_(std::move(path)), descriptor_(file_system.create(path_)) {}

void FileWriter::write(std::span<const std::byte> bytes) {
  file_system_.write(descriptor_.get(), bytes, path_);
  hash_.update(bytes);
  bytes_ += std::ssize(bytes);
}

void FileWriter::finish() {
  file_system_.sync(descriptor_.get(), path_);
  descriptor_ = FileDescriptor(-1);
}

FileReader::FileReader(fs::path path) : path_(std::move(path)), descriptor_(open_to_read(path_)) {
  size_ = size_of_file(descriptor_.get(), path_);
}

void FileReader::read(std::int64_t offset, std::span<std::byte> out) const {
  const std::int64_t end = offset + std::ssize(out);
  WatchedWait wait([this] { return "reading " + path_.string(); });
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_.get(), out.data(), std::min(out.size(), kMostAtOnce), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path_, errno);
    if (count == 0) {
      throw IoError(fmt::format("cannot read {}: it ends at byte {}, expected at least {}", path_.string(),
                                offset, end));
    }
    wait.advance();
    out = out.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

bool is_there(const fs::path& path) {
  const WatchedWait wait([&path] { return "looking for " + path.string(); });
  std::error_code error;
  return fs::status(path, error).type() != fs::file_type::not_found;
}

void remove_quietly(FileSystem& file_system, const fs::path& path) noexcept {
  try {
    file_system.remove_all(path);
  } catch (const std::exception&) {
    // The caller's error says more; what is left behind is removed at the next start.
  }
}

std::string read_file(const fs::path& path) {
  const FileReader file(path);
  std::string content(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

std::uint64_t hash_file(const FileReader& file) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::clamp<Bytes>(file.size(), 1, 4 * MiB)));
  StreamingHash hash;
  for (std::int64_t offset = 0; offset < file.size();) {
    const auto count = std::min<std::int64_t>(std::ssize(buffer), file.size() - offset);
    const auto piece = std::span(buffer).first(static_cast<std::size_t>(count));
    file.read(offset, piece);
    hash.update(piece);
    offset += count;
  }
  return hash.digest();
}

void write_file(FileSystem& file_system, const fs::path& path, std::string_view content) {
  FileWriter writer(file_system, path);
  writer.write(std::as_bytes(std::span(content)));
  writer.finish();
}

void write_file_atomically(FileSystem& file_system, const fs::path& path, std::string_view content) {
  fs::path temporary = path;
  temporary += ".tmp";
  try {
    write_file(file_system, temporary, content);
    file_system.rename(temporary, path);
  } catch (const IoError&) {
    remove_quietly(file_system, temporary);
    throw;
  }
  file_system.sync_folder(path.parent_path());
}

}  // namespace strata
