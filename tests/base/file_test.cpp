#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/system_error.h"
#include "tests/base/expect_error.h"
#include "tests/base/hostile.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TemporaryFolder;
using test::Trap;
using test::Victim;

int write_back_error = 0;  ///< of the next sync_file_range(); 0: none

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(File, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  FileWriter writer(FileSystem::real(), folder / "file");
  writer.write(as_bytes("first "));
  writer.write(as_bytes("second"));
  writer.finish();
  EXPECT_EQ(read_file(folder / "file"), "first second");
  EXPECT_EQ(writer.bytes(), 12);
  EXPECT_EQ(writer.checksum(), hash_text("first second"));
  EXPECT_EQ(hash_file(FileReader(folder / "file")), hash_text("first second"));
}

/// Linux tells a failed write-back to the first call that asks, here sync_file_range(), and no later one.
// Invariant: A drive that loses data is found.
TEST(File, ALostWriteBackIsNoSync) {
  const TemporaryFolder folder;
  FileWriter writer(FileSystem::real(), folder / "file");
  writer.write(as_bytes("lost"));
  write_back_error = EIO;
  expect_error<SystemError>([&] { writer.finish(); }, {"cannot sync", "file"});
  write_back_error = ENOSYS;
  write_file(FileSystem::real(), folder / "other", "kept");
  EXPECT_EQ(write_back_error, 0) << "sync_file_range() was not called";
}

/// A file server, say, that keeps less than it says.
class ForgetfulFileSystem : public FileSystem {
 public:
  using Forget = void (*)(std::string& content);
  explicit ForgetfulFileSystem(Forget forget) : forget_(forget) {}
  void sync(int descriptor, const fs::path& path) override {
    FileSystem::sync(descriptor, path);
    std::string content = read_file(path);
    forget_(content);
    std::ofstream(path, std::ios::binary) << content;
  }

 private:
  Forget forget_;
};

// Invariant: A drive that loses data is found.
TEST(File, WhatIsNotReadBackIsNotWritten) {
  const TemporaryFolder folder;
  ForgetfulFileSystem shortens([](std::string& content) { content.pop_back(); });
  ForgetfulFileSystem changes([](std::string& content) { content.front() = '?'; });
  replace_file(FileSystem::real(), folder / "old", "whole");
  expect_error<IoError>([&] { replace_file(shortens, folder / "old", "new"); },
                        {"cannot read back", "old.tmp", "it has 2 bytes, not 3"});
  expect_error<IoError>([&] { replace_file(changes, folder / "old", "new"); }, {"it has other bytes"});
  EXPECT_EQ(read_file(folder / "old"), "whole") << "nothing takes its place";
  const std::string large(3 * MiB + 1, 'a');
  expect_error<IoError>([&] { write_file(shortens, folder / "large", large); },
                        {"it has 3145728 bytes, not 3145729"});
  write_file(FileSystem::real(), folder / "largest", large);
}

/// What is lost is zeros, as where a drive of less room than it says has left something out.
// Invariant of failures: Written files are read back from the drive before anything older is removed. A file
// of up to 4 MiB is read whole. A larger one is read at its end and at places that are spread evenly over it,
// so that a hole of a thirty-second of it is always found.
TEST(File, WhatIsReadBackIsSpreadOverAllOfALargeOne) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  for (const Bytes size : {2 * MiB, 4 * MiB + 1, 9 * MiB + 12'345}) {
    std::string content(static_cast<std::size_t>(size), 'a');
    for (std::size_t i = 0; i < content.size(); i += 1000) content[i] = static_cast<char>(random());
    write_file(FileSystem::real(), folder / fmt::format("whole-{}", size), content);
    for (int i = 0; i < 3; ++i) {
      static std::size_t begin, count;
      count = content.size() / 16;
      begin = random() % (content.size() - count);
      ForgetfulFileSystem loses([](std::string& kept) { kept.replace(begin, count, count, '\0'); });
      expect_error<IoError>([&] { write_file(loses, folder / fmt::format("{}-{}", size, i), content); },
                            {"cannot read back", "it has other bytes"});
    }
  }
}

/// Pieces of any size are one file.
TEST(BlockSamples, AreThoseOfTheBlocksThatAreReadBack) {
  std::mt19937 random(2);
  for (const Bytes size : {Bytes{1}, 64 * KiB, 4 * MiB, 4 * MiB + 1, 9 * MiB - 7}) {
    std::string content(static_cast<std::size_t>(size), 'a');
    for (std::size_t i = 0; i < content.size(); i += 1000) content[i] = static_cast<char>(random());
    BlockSamples samples;
    for (std::string_view left = content; !left.empty();) {
      const std::size_t count = std::min<std::size_t>(left.size(), 1 + random() % 300'000);
      samples.add(std::as_bytes(std::span(left.substr(0, count))));
      left.remove_prefix(count);
    }
    std::vector<std::uint64_t> expected;
    for (Bytes block = 0; block + BlockSamples::kBlock <= size; block += BlockSamples::stride_of(size))
      expected.push_back(hash_text(std::string_view(content).substr(
          static_cast<std::size_t>(block), static_cast<std::size_t>(BlockSamples::kBlock))));
    EXPECT_EQ(samples.checksums(), expected) << size;
    EXPECT_LE(expected.size(), 64U);
  }
}

TEST(File, ReadsHaveAnOffset) {
  const TemporaryFolder folder;
  write_file(FileSystem::real(), folder / "file", "0123456789");
  const FileReader file(folder / "file");
  std::array<char, 3> out{};
  file.read(4, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(std::string(out.data(), 3), "456");
  EXPECT_EQ(file.size(), 10);
}

TEST(File, ReadingBeyondTheEndSaysWhereTheFileEnds) {
  const TemporaryFolder folder;
  write_file(FileSystem::real(), folder / "file", "0123456789");
  const FileReader file(folder / "file");
  std::array<std::byte, 8> out{};
  expect_error<IoError>([&] { file.read(5, out); },
                        {(folder / "file").string(), "ends at byte 10", "at least 13"});
}

TEST(File, AMissingFileIsNamed) {
  const TemporaryFolder folder;
  expect_error<IoError>([&] { read_file(folder / "none"); },
                        {"cannot open", (folder / "none").string(), "No such file or directory"});
}

TEST(File, AFolderIsNotAFile) {
  const TemporaryFolder folder;
  expect_error<IoError>([&] { read_file(folder.path()); }, {"cannot read", "Is a directory"});
}

TEST(File, AFullDiskIsNamedWithAdvice) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  expect_error<IoError>([&] { FileSystem::real().write(full.get(), as_bytes("x"), "/dev/full"); },
                        {"cannot write /dev/full", "No space left on device", "free some space"});
}

TEST(File, AFileInAMissingFolderCannotBeCreated) {
  const TemporaryFolder folder;
  expect_error<IoError>([&] { write_file(FileSystem::real(), folder / "none" / "file", "x"); },
                        {"cannot open the folder " + (folder / "none").string(), "No such file"});
}

TEST(File, FoldersAreCreatedWithThoseAboveThem) {
  const TemporaryFolder folder;
  FileSystem::real().create_folders(folder / "a" / "b" / "c");
  EXPECT_TRUE(fs::is_directory(folder / "a" / "b" / "c"));
  FileSystem::real().create_folders(folder / "a" / "b");
}

TEST(File, IsCreatedOnlyWhereNothingHasItsName) {
  std::vector<Trap> traps = test::file_traps();
  traps.push_back({"a file", [](const fs::path& at, const Victim&) { std::ofstream(at) << "the user's"; }});
  for (const Trap& trap : traps) {
    const TemporaryFolder folder;
    const Victim victim;
    trap.set(folder / "file", victim);
    SCOPED_TRACE(trap.name);
    expect_error<IoError>([&] { write_file(FileSystem::real(), folder / "file", "x"); },
                          {"cannot create " + (folder / "file").string()});
    victim.expect_untouched(trap.name);
  }
}

TEST(File, IsNotCreatedInAFolderThatIsALink) {
  const TemporaryFolder folder;
  const Victim victim;
  fs::create_symlink(victim.path(), folder / "step.tmp");
  expect_error<IoError>([&] { write_file(FileSystem::real(), folder / "step.tmp" / "manifest.json", "x"); },
                        {"cannot open the folder " + (folder / "step.tmp").string(), "a symbolic link"});
  victim.expect_untouched("a link to a folder");
}

TEST(File, RemovingALinkLeavesWhatItLeadsTo) {
  for (const Trap& trap : test::file_traps()) {
    const TemporaryFolder folder;
    const Victim victim;
    fs::create_directory(folder / "tree");
    trap.set(folder / "tree" / "below", victim);
    trap.set(folder / "x", victim);
    FileSystem::real().remove_all(folder / "tree");
    FileSystem::real().remove_all(folder / "x");
    EXPECT_TRUE(fs::is_empty(folder.path())) << trap.name;
    victim.expect_untouched(trap.name);
  }
}

TEST(File, RemovingFollowsTheUsersOwnLinksOnTheWay) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "real" / "a" / "b");
  fs::create_symlink("real", folder / "link");
  FileSystem::real().remove_all(folder / "link" / "a/");
  EXPECT_TRUE(fs::is_empty(folder / "real"));
  FileSystem::real().remove_all(folder / "none" / "a");
}

TEST(File, APipeIsNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error<IoError>([&] { read_file(folder / "pipe"); }, {"cannot read", "pipe", "not a regular file"});
}

/// A device like /dev/null would be gone for all programs.
TEST(File, OnlyAFileIsReplaced) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "link");
  for (const char* name : {"pipe", "link"}) {
    const fs::file_type before = fs::symlink_status(folder / name).type();
    expect_error<SystemError>([&] { replace_file(FileSystem::real(), folder / name, "text"); },
                              {"cannot replace", name, "not a regular file"});
    EXPECT_EQ(fs::symlink_status(folder / name).type(), before);
  }
}

TEST(File, AFolderBelowAFileCannotBeCreated) {
  const TemporaryFolder folder;
  write_file(FileSystem::real(), folder / "file", "x");
  expect_error<IoError>([&] { FileSystem::real().create_folders(folder / "file" / "below"); },
                        {"cannot create the folder", "Not a directory"});
}

TEST(File, RemovingIsRecursiveAndForgivesWhatIsNotThere) {
  const TemporaryFolder folder;
  FileSystem::real().create_folders(folder / "a" / "b");
  FileSystem::real().remove_all(folder / "a");
  FileSystem::real().remove_all(folder / "a");
  EXPECT_FALSE(is_there(folder / "a"));
}

TEST(File, HasAFolderMadeForIt) {
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) make_folder_of(folder / "a/b/file");
  write_file(FileSystem::real(), folder / "a/b/file", "");
  make_folder_of("file");
  expect_error<IoError>([&] { make_folder_of(folder / "a/b/file/c/d"); },
                        {"cannot create the folder ", "a/b/file/c: Not a directory"});
}

TEST(File, AnEmptyFileHasTheHashOfNothing) {
  const TemporaryFolder folder;
  write_file(FileSystem::real(), folder / "file", "");
  EXPECT_EQ(read_file(folder / "file"), "");
  EXPECT_EQ(hash_file(FileReader(folder / "file")), hash_text(""));
}

TEST(File, AHashCoversFilesLargerThanItsBuffer) {
  const TemporaryFolder folder;
  std::string content(5 << 20, 'a');
  content.back() = 'b';
  write_file(FileSystem::real(), folder / "file", content);
  EXPECT_EQ(hash_file(FileReader(folder / "file")), hash_text(content));
}

}  // namespace
}  // namespace strata

/// In place of the C library's.
extern "C" int sync_file_range(int descriptor, off64_t offset, off64_t bytes, unsigned flags) {
  const int error = std::exchange(strata::write_back_error, 0);
  if (error == 0) return static_cast<int>(::syscall(SYS_sync_file_range, descriptor, offset, bytes, flags));
  errno = error;
  return -1;
}
