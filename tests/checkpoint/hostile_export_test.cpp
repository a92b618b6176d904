// What may be where an export is to be: it is found before anything is written.
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "tests/base/expect_error.h"
#include "tests/base/hostile.h"
#include "tests/checkpoint/support.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

TEST(HostileExport, IsRefusedWhereAnythingHasItsNameALinkToAnEmptyFolderToo) {
  std::vector<test::Trap> traps = test::file_traps();
  const test::TemporaryFolder empty;
  traps.push_back({"a link to an empty folder",
                   [&](const fs::path& at, const test::Victim&) { fs::create_symlink(empty.path(), at); }});
  for (const test::Trap& trap : traps) {
    for (const std::string end : {"", "/"}) {
      const test::TemporaryFolder folder;
      const test::Victim victim;
      trap.set(folder / "x", victim);
      test::expect_error<ConfigError>(
          [&] { save_hf_folder(folder / ("x" + end), test::tiny_llama(), nullptr, {}); },
          {(folder / "x").string(), "already exists; give the model a new folder"});
      EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1)
          << trap.name;
      victim.expect_untouched(trap.name);
    }
  }
  EXPECT_TRUE(fs::is_empty(empty.path()));
}

TEST(HostileExport, IsRefusedWhereNoFolderCanBeRenamedTo) {
  const auto refused = [](const fs::path& folder, const std::string& why) {
    test::expect_error<ConfigError>([&] { save_hf_folder(folder, test::tiny_llama(), nullptr, {}); },
                                    {folder.string(), why});
  };
  for (const char* name : {"", "/", ".", "./", ".."}) refused(name, "no name for a new folder");
  for (const char* mount : {"/proc", "/proc/"})
    refused(mount, "mount point, which must stay; give the model");
}

}  // namespace
}  // namespace strata
