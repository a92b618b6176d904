#include "engine/base/file.h"

#include <gtest/gtest.h>

#include <array>

#include "engine/base/error.h"
#include "tests/base/expect_error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/base/temporary_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::Fault;
using test::FaultyFileSystem;
using test::TemporaryFolder;

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
  expect_error<IoError>([] { write_file(FileSystem::real(), "/dev/full", "x"); },
                        {"cannot write /dev/full", "No space left on device", "free some space"});
}

TEST(File, AFileInAMissingFolderCannotBeCreated) {
  const TemporaryFolder folder;
  expect_error<IoError>([&] { write_file(FileSystem::real(), folder / "none" / "file", "x"); },
                        {"cannot create", (folder / "none" / "file").string()});
}

TEST(File, FoldersAreCreatedWithThoseAboveThem) {
  const TemporaryFolder folder;
  FileSystem::real().create_folders(folder / "a" / "b" / "c");
  EXPECT_TRUE(fs::is_directory(folder / "a" / "b" / "c"));
  FileSystem::real().create_folders(folder / "a" / "b");
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

TEST(File, AnAtomicWriteReplacesTheContent) {
  const TemporaryFolder folder;
  write_file_atomically(FileSystem::real(), folder / "file", "old");
  write_file_atomically(FileSystem::real(), folder / "file", "new");
  EXPECT_EQ(read_file(folder / "file"), "new");
  EXPECT_FALSE(is_there(folder / "file.tmp"));
}

TEST(File, AnAtomicWriteLeavesOldOrNewWhereverItFails) {
  for (const Fault fault : {Fault::error, Fault::kill, Fault::power_loss}) {
    bool finished = false;
    for (int fail_at = 0; !finished; ++fail_at) {
      const TemporaryFolder folder;
      write_file(FileSystem::real(), folder / "file", "old content");
      FaultyFileSystem file_system(fail_at, fault);
      try {
        write_file_atomically(file_system, folder / "file", "new content");
        finished = true;
      } catch (const IoError&) {
        if (fault == Fault::power_loss) file_system.lose_unsynced();
        EXPECT_TRUE(fault != Fault::error || !is_there(folder / "file.tmp")) << fail_at;
      }
      const std::string content = read_file(folder / "file");
      EXPECT_TRUE(content == "new content" || (!finished && content == "old content")) << content << fail_at;
    }
  }
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
