// What others may have put where a spill folder is to be, or in it: nothing that is not Strata's may change.
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/folder.h"
#include "offload/spill_folder.h"
#include "tests/base/expect_error.h"
#include "tests/base/hostile.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TemporaryFolder;
using test::Trap;
using test::Victim;
using ::testing::ElementsAre;

struct HostileSpillFolders : ::testing::Test {
  SpillFolder open(const RankOfRun& rank = {}) const {
    return SpillFolder(folder_.path().string(), nullptr, rank);
  }
  void expect_refusal(const std::vector<std::string>& parts) const {
    expect_error<ConfigError>([&] { open(); }, parts);
  }
  void make_spill_folder() const { fs::create_directory(spill_); }
  void write(const fs::path& path) const { std::ofstream(path) << "of somebody else"; }
  std::vector<std::string> names_in(const fs::path& path) const { return Folder::named(path).names(); }

  TemporaryFolder folder_;
  fs::path spill_ = folder_ / "strata-spill";
};

TEST_F(HostileSpillFolders, AreNoLinksPipesOrFiles) {
  for (const Trap& trap : test::folder_traps()) {
    const Victim victim;
    trap.set(spill_, victim);
    expect_refusal({folder_.path().string() + " cannot be used", spill_.string()});
    victim.expect_untouched(trap.name);
    EXPECT_THAT(names_in(folder_.path()), ElementsAre("strata-spill")) << trap.name;
    fs::remove(spill_);
  }
}

TEST_F(HostileSpillFolders, HaveNoLinkPipeFolderOrOthersFileForALock) {
  for (const Trap& trap : test::file_traps()) {
    const Victim victim;
    make_spill_folder();
    trap.set(spill_ / "lock", victim);
    expect_refusal({(spill_ / "lock").string()});
    victim.expect_untouched(trap.name);
    EXPECT_THAT(names_in(spill_), ElementsAre("lock")) << trap.name;
    fs::remove_all(spill_);
  }
}

TEST_F(HostileSpillFolders, HoldNothingButStratasOwn) {
  make_spill_folder();
  write(spill_ / "notes.txt");
  write(spill_ / "spill");
  expect_refusal({spill_.string(), "'notes.txt'", "not Strata's"});
  EXPECT_EQ(read_file(spill_ / "notes.txt"), "of somebody else");
  fs::remove(spill_ / "notes.txt");
  open();
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(HostileSpillFolders, LoseALinkOfAFilesNameAndNotWhereItLeads) {
  for (const Trap& trap : test::link_traps()) {
    const Victim victim;
    make_spill_folder();
    trap.set(spill_ / "spill", victim);
    open();
    EXPECT_TRUE(fs::is_empty(folder_.path())) << trap.name;
    victim.expect_untouched(trap.name);
  }
}

TEST_F(HostileSpillFolders, KeepAFolderOfAFilesName) {
  fs::create_directories(spill_ / "spill" / "below");
  expect_refusal({(spill_ / "spill").string(), "Is a directory"});
  EXPECT_TRUE(fs::is_directory(spill_ / "spill" / "below"));
}

TEST_F(HostileSpillFolders, ThatAreSwappedForALinkMeanwhileAreStillTheOnesThatWereOpened) {
  if (const std::string reason = test::why_no_drive(folder_.path()); !reason.empty()) GTEST_SKIP() << reason;
  const Victim victim;
  {
    const SpillFolder spill = open();
    fs::rename(spill_, folder_ / "moved");
    fs::create_symlink(victim.path(), spill_);
    write(victim.path() / "spill");
    spill.make_file("spill", 0);
    EXPECT_TRUE(fs::remove(victim.path() / "spill"));
    EXPECT_THAT(names_in(folder_ / "moved"), ElementsAre("lock"));
  }
  victim.expect_untouched("swapped for a link");
  EXPECT_TRUE(fs::is_empty(folder_ / "moved"));
}

TEST_F(HostileSpillFolders, OfTheUsersOwnFolderMayBeReachedThroughALink) {
  const fs::path link = folder_ / "link";
  fs::create_directory(folder_ / "scratch");
  fs::create_symlink("scratch", link);
  const SpillFolder spill(link.string(), nullptr);
  EXPECT_TRUE(fs::exists(folder_ / "scratch" / "strata-spill" / "lock"));
}

TEST_F(HostileSpillFolders, ThatLookAbandonedAreLeftUnlessTheyAreOurs) {
  for (const Trap& trap : test::link_traps()) {
    const Victim victim;
    fs::create_symlink(victim.path(), folder_ / "strata-spill-1");
    for (const char* name : {"strata-spill-2", "strata-spill-3", "strata-spill-4", "strata-spill-5x"}) {
      fs::create_directory(folder_ / name);
      write(folder_ / name / "spill");
    }
    write(victim.path() / "lock");
    trap.set(folder_ / "strata-spill-2" / "lock", victim);
    write(folder_ / "strata-spill-3" / "lock");
    write(folder_ / "strata-spill-3" / "notes.txt");
    write(folder_ / "strata-spill-5x" / "lock");
    open();
    fs::remove(victim.path() / "lock");
    victim.expect_untouched(trap.name);
    EXPECT_THAT(names_in(folder_.path()), ElementsAre("strata-spill-1", "strata-spill-2", "strata-spill-3",
                                                      "strata-spill-4", "strata-spill-5x"))
        << trap.name;
    EXPECT_THAT(names_in(folder_ / "strata-spill-3"), ::testing::Contains("notes.txt"));
    EXPECT_THAT(names_in(folder_ / "strata-spill-4"), ElementsAre("spill"))
        << "its rank has made no lock yet";
    EXPECT_THAT(names_in(folder_ / "strata-spill-5x"), ElementsAre("lock", "spill"));
    for (const std::string& name : names_in(folder_.path())) fs::remove_all(folder_ / name);
  }
}

/// Only root can give a folder away; anybody else would need a second user.
TEST_F(HostileSpillFolders, OfAnotherUserAreLeftAndOursHasItsOwnName) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root";
  make_spill_folder();
  write(spill_ / "spill");
  ASSERT_EQ(::chown(spill_.c_str(), 65534, 65534), 0);
  {
    const SpillFolder ours((folder_ / "").string(), nullptr);
    EXPECT_TRUE(fs::exists(folder_ / "strata-spill.user-0" / "lock"));
  }
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("strata-spill"));
  EXPECT_THAT(names_in(spill_), ElementsAre("spill"));
}

}  // namespace
}  // namespace strata
