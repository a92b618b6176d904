#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <system_error>
#include <vector>

#include "base/bytes.h"
#include "base/folder.h"
#include "base/nth.h"
#include "base/system_error.h"
#include "base/watchdog.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

/// Whether reading may wait for somebody who writes, or changes what is read.
bool is_pipe_or_device(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

/// No single call moves more, so that a slow drive is seen to advance.
constexpr std::size_t kMostAtOnce = 64 * MiB;

int open_to_read(const fs::path& path, int flags = 0) {
  const WatchedWait wait([&path] { return "opening " + path.string(); });
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
  if (descriptor < 0) throw_system_error("open", path, errno);
  if (!is_pipe_or_device(descriptor)) return descriptor;
  ::close(descriptor);
  throw SystemError(fmt::format("cannot read {}: it is not a regular file", path.string()), EINVAL);
}

/// A folder that is no link itself, as those that Strata makes.
Folder open_own_folder(const fs::path& path) {
  const fs::path name = path.filename();
  if (name.empty() || name == "." || name == "..") return Folder::named(path);
  return Folder::named(path.parent_path()).open(name.string());
}

/// The file's bytes reach the disk a piece after the other: all at once would show no advance, and a large
/// file on a slow disk takes long. What this misses is left to fsync. Throws if bytes are lost: Linux reports
/// a failed write-back once, so an fsync behind this call would succeed.
void sync_pieces(int descriptor, const fs::path& path, WatchedWait& wait) {
  constexpr Bytes kPiece = 256 * MiB;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return;
  for (Bytes offset = 0; offset < status.st_size; offset += kPiece) {
    constexpr unsigned kDone =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (::sync_file_range(descriptor, offset, kPiece, kDone) != 0) {
      const bool is_unsupported = errno == ENOSYS || errno == EINVAL || errno == ESPIPE;
      if (is_unsupported) return;
      throw_system_error("sync", path, errno);
    }
    wait.advance();
  }
}

/// What is read back of a file, from its end on; a smaller file is read back as a whole.
constexpr Bytes kReadBack = MiB;

/// The next reading of what is read back asks the drive, and no copy in memory. Where this fails the copy is
/// as good.
void forget_what_is_read_back(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return;
  constexpr Bytes kPage = 4096;
  const Bytes size = status.st_size, begin = std::max<Bytes>(0, size - kReadBack) / kPage * kPage;
  const Bytes stride = BlockSamples::stride_of(size);
  for (Bytes block = 0; block < begin; block += stride)
    ::posix_fadvise(descriptor, block, BlockSamples::kBlock, POSIX_FADV_DONTNEED);
  ::posix_fadvise(descriptor, begin, 0, POSIX_FADV_DONTNEED);
}

}  // namespace

FileSystem& FileSystem::real() {
  static FileSystem file_system;
  return file_system;
}

int FileSystem::create(const fs::path& path) {
  const WatchedWait wait([&path] { return "creating " + path.string(); });
  return open_own_folder(path.parent_path())
      .open_file(path.filename().string(), O_WRONLY | O_CREAT | O_EXCL)
      .release();
}

void FileSystem::write(int descriptor, std::span<const std::byte> bytes, const fs::path& path) {
  WatchedWait wait([&path] { return "writing " + path.string(); });
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_system_error("write", path, errno);
    wait.advance();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileSystem::sync(int descriptor, const fs::path& path) {
  WatchedWait wait([&path] { return "syncing " + path.string(); });
  sync_pieces(descriptor, path, wait);
  // Some special files cannot be synced and say EINVAL; they have nothing to lose either.
  if (::fsync(descriptor) != 0 && errno != EINVAL) throw_system_error("sync", path, errno);
  forget_what_is_read_back(descriptor);
}

void FileSystem::rename(const fs::path& from, const fs::path& to) {
  const WatchedWait wait([&from] { return "renaming " + from.string(); });
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw_system_error(fmt::format("rename {} to", from.string()), to, errno);
}

void FileSystem::sync_folder(const fs::path& path) {
  const WatchedWait wait([&path] { return "syncing " + path.string(); });
  const FileDescriptor folder(open_to_read(path.empty() ? fs::path(".") : path, O_DIRECTORY));
  if (::fsync(folder.get()) != 0 && errno != EINVAL) throw_system_error("sync", path, errno);
}

void FileSystem::create_folders(const fs::path& path) {
  const WatchedWait wait([&path] { return "making the folder " + path.string(); });
  const fs::path absolute = fs::absolute(path).lexically_normal();
  fs::path existing = absolute;
  while (!is_there(existing) && existing.has_relative_path()) existing = existing.parent_path();
  std::error_code error;
  fs::create_directories(absolute, error);
  if (error) throw_system_error("create the folder", path, error.value());
  for (fs::path folder = absolute; folder != existing; folder = folder.parent_path())
    sync_folder(folder.parent_path());
}

void FileSystem::create_folder(const fs::path& path) {
  const WatchedWait wait([&path] { return "creating " + path.string(); });
  constexpr mode_t kMode = 0777;  // the user's umask narrows it
  if (::mkdir(path.c_str(), kMode) != 0) throw_system_error("create the folder", path, errno);
}

void FileSystem::remove_all(const fs::path& path) {
  const WatchedWait wait([&path] { return "removing " + path.string(); });
  const fs::path target = path.has_filename() ? path : path.parent_path();
  std::optional<Folder> folder;
  try {
    folder = Folder::named(target.parent_path());
  } catch (const SystemError& error) {
    if (error.code == ENOENT || error.code == ENOTDIR) return;
    throw;
  }
  folder->remove_tree(target.filename().string());
}

int FileSystem::open(const fs::path& path) {
  return open_to_read(path);
}

std::int64_t FileSystem::size(int descriptor, const fs::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw_system_error("stat", path, errno);
  if (S_ISDIR(status.st_mode)) throw_system_error("read", path, EISDIR);
  return status.st_size;
}

std::size_t FileSystem::read(int descriptor, std::int64_t offset, std::span<std::byte> out,
                             const fs::path& path) {
  const WatchedWait wait([&path] { return "reading " + path.string(); });
  const std::size_t most = std::min(out.size(), kMostAtOnce);
  ssize_t count = 0;
  do {
    count = ::pread(descriptor, out.data(), most, offset);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw_system_error("read", path, errno);
  return static_cast<std::size_t>(count);
}

bool FileSystem::exists(const fs::path& path) {
  const WatchedWait wait([&path] { return "looking for " + path.string(); });
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) throw_system_error("stat", path, errno);
  return false;
}

std::vector<std::string> FileSystem::list(const fs::path& folder) {
  const WatchedWait wait([&folder] { return "listing " + folder.string(); });
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) throw_system_error("list", folder, error.value());
  std::ranges::sort(names);
  return names;
}

Bytes FileSystem::free_bytes(const fs::path& folder) {
  return Folder::named(folder).free_bytes();
}

std::uint64_t FileSystem::filesystem_of(const fs::path& folder) {
  return Folder::named(folder).status().st_dev;
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

namespace {

/// A small file, such as a manifest with the checksums of large ones, is compared as a whole.
void read_back(const FileWriter& written, FileSystem& file_system) {
  const FileReader file(written.path(), file_system);
  const auto refuse = [&](const std::string& what) {
    throw IoError(fmt::format("cannot read back what was written to {}: {}", written.path().string(), what));
  };
  const Bytes bytes = written.bytes();
  if (file.size() != bytes) refuse(fmt::format("it has {} bytes, not {}", file.size(), bytes));
  if (bytes <= kReadBack) {
    if (hash_file(file) != written.checksum()) refuse("it has other bytes");
    return;
  }
  auto buffer = sized<std::vector<std::byte>>(kReadBack);
  file.read(bytes - kReadBack, buffer);
  resize(buffer, BlockSamples::kBlock);
  Bytes block = 0;
  for (const std::uint64_t checksum : written.samples().checksums()) {
    file.read(block, buffer);
    if (hash_bytes(buffer) != checksum) refuse(fmt::format("it has other bytes from byte {} on", block));
    block += BlockSamples::stride_of(bytes);
  }
}

}  // namespace

FileWriter::FileWriter(FileSystem& file_system, fs::path path)
    : file_system_(file_system), path_(std::move(path)), descriptor_(file_system.create(path_)) {}

void FileWriter::write(std::span<const std::byte> bytes) {
  file_system_.write(descriptor_.get(), bytes, path_);
  hash_.update(bytes);
  samples_.add(bytes);
  bytes_ += std::ssize(bytes);
}

void FileWriter::finish() {
  file_system_.sync(descriptor_.get(), path_);
  descriptor_ = FileDescriptor(-1);
  read_back(*this, file_system_);
}

FileReader::FileReader(fs::path path, FileSystem& file_system)
    : file_system_(&file_system),
      path_(std::move(path)),
      descriptor_(file_system.open(path_)),
      size_(file_system.size(descriptor_.get(), path_)) {}

void FileReader::read(std::int64_t offset, std::span<std::byte> out) const {
  const std::int64_t end = offset + std::ssize(out);
  while (!out.empty()) {
    const std::size_t count = file_system_->read(descriptor_.get(), offset, out, path_);
    if (count == 0) {
      throw IoError(fmt::format("cannot read {}: it ends at byte {}, expected at least {}", path_.string(),
                                offset, end));
    }
    out = out.subspan(count);
    offset += static_cast<std::int64_t>(count);
  }
}

bool is_there(const fs::path& path) {
  const WatchedWait wait([&path] { return "looking for " + path.string(); });
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

void make_folder_of(const fs::path& path, FileSystem& file_system) {
  if (path.has_parent_path()) file_system.create_folders(path.parent_path());
}

void remove_quietly(FileSystem& file_system, const fs::path& path) noexcept {
  try {
    file_system.remove_all(path);
  } catch (const std::exception&) {
    // The caller's error says more; what is left behind is removed at the next start.
  }
}

std::string read_file(const fs::path& path, FileSystem& file_system) {
  constexpr Bytes kMost = 256 * MiB;
  const FileReader file(path, file_system);
  if (file.size() > kMost)
    throw ConfigError(fmt::format(
        "{}: {} bytes are more than the {} of a file that is read at once; is it another file, or damaged?",
        path.string(), file.size(), kMost));
  auto content = sized<std::string>(file.size());
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

std::uint64_t hash_file(const FileReader& file) {
  auto buffer = sized<std::vector<std::byte>>(std::clamp<Bytes>(file.size(), 1, 4 * MiB));
  StreamingHash hash;
  for (std::int64_t offset = 0; offset < file.size();) {
    const auto count = std::min<std::int64_t>(std::ssize(buffer), file.size() - offset);
    const auto piece = slice(buffer, 0, count);
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

void replace_file(FileSystem& file_system, const fs::path& path, std::string_view content) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  if (fs::exists(there) && !fs::is_regular_file(there))  // a device would be gone, for everybody
    throw SystemError(fmt::format("cannot replace {}: it is not a regular file", path.string()), EINVAL);
  const fs::path temporary = fs::path(path).concat(".tmp");
  file_system.remove_all(temporary);
  write_file(file_system, temporary, content);
  file_system.rename(temporary, path);
  file_system.sync_folder(path.parent_path());
}

}  // namespace strata
