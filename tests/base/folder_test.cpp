#include "base/folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/base/expect_error.h"
#include "tests/base/hostile.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TemporaryFolder;
using test::Trap;
using test::Victim;
using ::testing::ElementsAre;

int code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const SystemError& error) {
    return error.code;
  }
  return 0;
}

TEST(Folder, ThatAUserNamedMayBeALink) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "real");
  fs::create_symlink("real", folder / "link");
  EXPECT_TRUE(Folder::named(folder / "link").make("below"));
  EXPECT_TRUE(fs::is_directory(folder / "real" / "below"));
}

TEST(Folder, ThatIsMissingIsNamed) {
  const TemporaryFolder folder;
  expect_error<SystemError>([&] { Folder::named(folder / "none"); },
                            {"cannot open the folder", (folder / "none").string(), "No such file"});
}

TEST(Folder, IsMadeOnceAndListed) {
  const TemporaryFolder temporary;
  const Folder folder = Folder::named(temporary.path());
  EXPECT_TRUE(folder.make("b"));
  EXPECT_FALSE(folder.make("b"));
  EXPECT_TRUE(folder.open("b").make("below"));
  folder.open_file("a", O_WRONLY | O_CREAT);
  EXPECT_THAT(folder.names(), ElementsAre("a", "b"));
  EXPECT_THAT(folder.names(), ElementsAre("a", "b")) << "from the start again";
  EXPECT_TRUE(folder.remove_file("a"));
  EXPECT_FALSE(folder.remove_file("a"));
  EXPECT_EQ(code_of([&] { folder.remove_folder("b"); }), ENOTEMPTY);
  EXPECT_TRUE(folder.remove_tree("b"));
  EXPECT_FALSE(folder.remove_tree("b"));
  EXPECT_TRUE(fs::is_empty(temporary.path()));
}

TEST(Folder, HasNamesOfOneComponentOnly) {
  const TemporaryFolder temporary;
  fs::create_directories(temporary / "folder" / "a");
  const Folder folder = Folder::named(temporary / "folder");
  for (const std::string name : {"", ".", "..", "a/b", "../folder", "/", "/tmp", "a/"}) {
    const std::vector<std::function<void()>> operations = {
        [&] { folder.open(name); },          [&] { folder.make(name); },
        [&] { folder.open_file(name, 0); },  [&] { folder.status(name); },
        [&] { folder.remove_file(name); },   [&] { folder.remove_folder(name); },
        [&] { folder.remove_tree(name); },   [&] { folder.rename("a", name); },
        [&] { folder.rename(name, "new"); },
    };
    for (const auto& operation : operations)
      expect_error<SystemError>(operation, {"'" + name + "'", "not the name of a file"});
  }
  EXPECT_TRUE(fs::is_directory(temporary / "folder" / "a"));
}

TEST(Folder, OpensNothingButAFolderBelow) {
  for (const Trap& trap : test::folder_traps()) {
    const TemporaryFolder temporary;
    const Victim victim;
    trap.set(temporary / "x", victim);
    const Folder folder = Folder::named(temporary.path());
    EXPECT_FALSE(folder.make("x")) << trap.name;
    expect_error<SystemError>([&] { folder.open("x"); },
                              {"cannot open the folder " + (temporary / "x").string()});
    victim.expect_untouched(trap.name);
  }
}

TEST(Folder, SaysThatALinkIsNotFollowed) {
  for (const Trap& trap : test::link_traps()) {
    const TemporaryFolder temporary;
    const Victim victim;
    trap.set(temporary / "x", victim);
    const Folder folder = Folder::named(temporary.path());
    expect_error<SystemError>([&] { folder.open("x"); }, {"it is a symbolic link", "remove it"});
    expect_error<SystemError>([&] { folder.open_file("x", O_WRONLY | O_CREAT | O_TRUNC); },
                              {"it is a symbolic link"});
    expect_error<SystemError>([&] { folder.open_file("x", O_WRONLY | O_CREAT | O_EXCL); },
                              {"it is a symbolic link"});
    victim.expect_untouched(trap.name);
  }
}

TEST(Folder, RemovesLinksAndNotWhereTheyLead) {
  for (const Trap& trap : test::file_traps()) {
    const TemporaryFolder temporary;
    const Victim victim;
    fs::create_directories(temporary / "tree" / "below");
    trap.set(temporary / "tree" / "below" / "x", victim);
    trap.set(temporary / "y", victim);
    const Folder folder = Folder::named(temporary.path());
    EXPECT_TRUE(folder.remove_tree("tree")) << trap.name;
    EXPECT_TRUE(folder.remove_tree("y")) << trap.name;
    EXPECT_TRUE(fs::is_empty(temporary.path())) << trap.name;
    victim.expect_untouched(trap.name);
  }
}

TEST(Folder, RenamesOverALinkAndNotWhereItLeads) {
  for (const Trap& trap : test::link_traps()) {
    const TemporaryFolder temporary;
    const Victim victim;
    std::ofstream(temporary / "new") << "new";
    trap.set(temporary / "x", victim);
    Folder::named(temporary.path()).rename("new", "x");
    EXPECT_EQ(read_file(temporary / "x"), "new") << trap.name;
    EXPECT_FALSE(fs::is_symlink(temporary / "x")) << trap.name;
    victim.expect_untouched(trap.name);
  }
}

/// Somebody swaps the folder for a link between our check and our use.
TEST(Folder, StaysTheOneThatWasOpened) {
  const TemporaryFolder temporary;
  const Victim victim;
  fs::create_directory(temporary / "x");
  const Folder folder = Folder::named(temporary.path()).open("x");
  fs::rename(temporary / "x", temporary / "moved");
  fs::create_symlink(victim.path(), temporary / "x");
  folder.make("made");
  folder.open_file("file", O_WRONLY | O_CREAT | O_TRUNC);
  EXPECT_THAT(folder.names(), ElementsAre("file", "made"));
  for (const std::string& name : folder.names()) folder.remove_tree(name);
  EXPECT_TRUE(fs::is_empty(temporary / "moved"));
  victim.expect_untouched("swapped for a link");
}

/// As folders above a user's own often are. Root may read everything, so it becomes somebody else.
TEST(Folder, MayBeOneThatCannotBeRead) {
  const TemporaryFolder temporary;
  ASSERT_EQ(::chmod(temporary.path().c_str(), 0333), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);
    const Folder folder = Folder::named(temporary.path());
    const bool made = folder.make("below") && folder.open("below").make("deeper");
    write_file(FileSystem::real(), temporary / "below" / "file", "x");
    FileSystem::real().remove_all(temporary / "below");
    ::_exit(made && code_of([&] { folder.names(); }) == EACCES ? 0 : 2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(::chmod(temporary.path().c_str(), 0700), 0);
  EXPECT_TRUE(fs::is_empty(temporary.path()));
}

TEST(Folder, OfAnotherUserIsRefused) {
  const TemporaryFolder temporary;
  Folder::named(temporary.path()).check_owner();
  // Only root can give a folder away, and root's own is anybody else's example.
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(temporary.path().c_str(), 65534, 65534), 0);
  }
  const Folder other = Folder::named(::geteuid() == 0 ? temporary.path() : "/");
  expect_error<SystemError>([&] { other.check_owner(); }, {other.path().string(), "belongs to user"});
}

}  // namespace
}  // namespace strata
