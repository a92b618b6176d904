#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>

#include "tests/base/expect_error.h"
#include "tests/base/hostile.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TemporaryFolder;
using test::Trap;
using test::Victim;

Folder open(const TemporaryFolder& folder) {
  return Folder::named(folder.path());
}

TEST(FolderLock, NamesItsProcessAndGoes) {
  const TemporaryFolder folder;
  {
    const FolderLock lock(open(folder), "lock");
    EXPECT_EQ(read_file(folder / "lock").find("process " + std::to_string(::getpid()) + " on "), 0U);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(FolderLock, RefusesASecondOneOfThisProcess) {
  const TemporaryFolder folder;
  const FolderLock lock(open(folder), "lock");
  try {
    const FolderLock second(open(folder), "lock");
    FAIL() << "no error";
  } catch (const FolderInUseError& error) {
    EXPECT_TRUE(error.own);
    EXPECT_NE(std::string(error.what()).find("is in use by this very process (process"), std::string::npos);
  }
  EXPECT_TRUE(fs::exists(folder / "lock")) << "it is the first one's";
}

TEST(FolderLock, OfAnotherProcessIsNamedAndFreeAfterItsKill) {
  const TemporaryFolder folder;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(open(folder), "lock");
    [[maybe_unused]] const auto written = ::write(ends[1], "!", 1);
    for (;;) ::pause();
  }
  char ready = 0;
  ASSERT_EQ(::read(ends[0], &ready, 1), 1);
  expect_error<FolderInUseError>([&] { FolderLock(open(folder), "lock"); },
                                 {folder.path().string(), "process " + std::to_string(child) + " on "});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const FolderLock lock(open(folder), "lock");
  EXPECT_EQ(read_file(folder / "lock").find("process " + std::to_string(::getpid()) + " on "), 0U);
}

TEST(FolderLock, IsNoLinkPipeFolderOrOtherNameOfAFile) {
  for (const Trap& trap : test::file_traps()) {
    const TemporaryFolder folder;
    const Victim victim;
    trap.set(folder / "lock", victim);
    expect_error<SystemError>([&] { FolderLock(open(folder), "lock"); }, {(folder / "lock").string()});
    EXPECT_TRUE(fs::exists(fs::symlink_status(folder / "lock"))) << trap.name << " must stay";
    victim.expect_untouched(trap.name);
  }
}

TEST(FolderLock, LeavesTheFileOfWhoeverReplacedIt) {
  const TemporaryFolder folder;
  {
    const FolderLock lock(open(folder), "lock");
    fs::remove(folder / "lock");
    std::ofstream(folder / "lock") << "somebody else's";
  }
  EXPECT_EQ(read_file(folder / "lock"), "somebody else's");
}

TEST(FolderLock, InARemovedFolderSaysThatItIsGone) {
  const TemporaryFolder parent;
  fs::create_directory(parent / "folder");
  Folder folder = Folder::named(parent / "folder");
  fs::remove(parent / "folder");
  try {
    const FolderLock lock(std::move(folder), "lock");
    FAIL() << "no error";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.code, ENOENT);
  }
}

TEST(FolderLock, ShowsNoControlCharactersOfWhoeverWroteIt) {
  const TemporaryFolder folder;
  std::optional<FolderLock> lock(std::in_place, open(folder), "lock");
  std::ofstream(folder / "lock") << "\033[2Jprocess 1\n";
  expect_error<FolderInUseError>([&] { FolderLock(open(folder), "lock"); }, {"?[2Jprocess 1?"});
}

}  // namespace
}  // namespace strata
