#include "engine/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

#include "engine/base/bytes.h"
#include "engine/base/system_error.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

int open_to_read(const fs::path& path, int flags = 0) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) throw_system_error("open", path, errno);
  return descriptor;
}

}  // namespace

FileSystem& FileSystem::real() {
  static FileSystem file_system;
  return file_system;
}

int FileSystem::create(const fs::path& path) {
  constexpr mode_t kMode = 0666;  // the user's umask narrows it
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (descriptor < 0) throw_system_error("create", path, errno);
  return descriptor;
}

void FileSystem::write(int descriptor, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_system_error("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileSystem::sync(int descriptor, const fs::path& path) {
  // Some special files cannot be synced and say EINVAL; they have nothing to lose either.
  if (::fsync(descriptor) != 0 && errno != EINVAL) throw_system_error("sync", path, errno);
}

void FileSystem::rename(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw_system_error(fmt::format("rename {} to", from.string()), to, errno);
}

void FileSystem::sync_folder(const fs::path& path) {
  const FileDescriptor folder(open_to_read(path.empty() ? fs::path(".") : path, O_DIRECTORY));
  if (::fsync(folder.get()) != 0 && errno != EINVAL) throw_system_error("sync", path, errno);
}

void FileSystem::create_folders(const fs::path& path) {
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
  constexpr mode_t kMode = 0777;  // the user's umask narrows it
  if (::mkdir(path.c_str(), kMode) != 0) throw_system_error("create the folder", path, errno);
}

void FileSystem::remove_all(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_system_error("remove", path, error.value());
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
  ssize_t count = 0;
  do {
    count = ::pread(descriptor, out.data(), out.size(), offset);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw_system_error("read", path, errno);
  return static_cast<std::size_t>(count);
}

bool FileSystem::exists(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) throw_system_error("stat", path, errno);
  return false;
}

std::vector<std::string> FileSystem::list(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) throw_system_error("list", folder, error.value());
  std::ranges::sort(names);
  return names;
}

Bytes FileSystem::free_bytes(const fs::path& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) throw_system_error("stat the filesystem of", path, errno);
  if (status.f_blocks == 0) return kUnlimited;
  return static_cast<Bytes>(status.f_bavail) * static_cast<Bytes>(status.f_frsize);
}

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
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

std::string read_file(const fs::path& path, FileSystem& file_system) {
  const FileReader file(path, file_system);
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
