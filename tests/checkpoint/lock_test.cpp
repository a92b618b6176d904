// One run at a time per checkpoint.path, however many ranks it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/run/checkpoint/checkpoint.h"
#include "tests/base/expect_error.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/ranks.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(CheckpointLock, KeepsASecondRunOutAndNamesTheFirst) {
  const TemporaryFolder folder;
  const fs::path path = folder / "out";
  {
    CheckpointStore first(path, 2);
    first.lock();
    CheckpointStore second(path, 2);
    expect_error<ConfigError>([&] { second.lock(); },
                              {"checkpoint.path " + path.string() + " is in use by",
                               "process " + std::to_string(::getpid()), "another checkpoint.path"});
  }
  CheckpointStore(path, 2).lock();
  EXPECT_TRUE(fs::is_empty(path));
}

TEST(CheckpointLock, IsOneForRunsOfAnyNumberOfRanks) {
  const TemporaryFolder folder;
  const auto lock = [&](Communicator& ranks) {
    CheckpointStore(folder.path(), 2, FileSystem::real(), &ranks).lock();
  };
  {
    CheckpointStore alone(folder.path(), 2);
    alone.lock();
    EXPECT_THAT(test::errors_of_ranks<ConfigError>(8, lock), Each(HasSubstr("is in use by")));
  }
  test::run_ranks(8, [&](Communicator& ranks) {
    CheckpointStore store(folder.path(), 2, FileSystem::real(), &ranks);
    store.lock();
    if (ranks.rank() == 5)
      expect_error<ConfigError>([&] { CheckpointStore(folder.path(), 2).lock(); }, {"is in use by"});
    double done = 0;
    ranks.all_reduce(&done, &done, 1, Element::fp64);  // the lock is rank 0's
  });
}

TEST(CheckpointLock, InAFolderThatCannotBeMadeIsAConfigError) {
  const TemporaryFolder folder;
  write_file(FileSystem::real(), folder / "file", "x");
  expect_error<ConfigError>([&] { CheckpointStore(folder / "file", 2).lock(); },
                            {"checkpoint.path " + (folder / "file").string() + " is not writable"});
}

TEST(CheckpointLock, FollowsNoLink) {
  const TemporaryFolder folder;
  write_file(FileSystem::real(), folder / "victim", "precious");
  fs::create_directory(folder / "out");
  fs::create_symlink(folder / "victim", folder / "out" / ".strata-lock");
  expect_error<ConfigError>([&] { CheckpointStore(folder / "out", 2).lock(); }, {"symbolic link"});
  EXPECT_EQ(read_file(folder / "victim"), "precious");
}

}  // namespace
}  // namespace strata
