#include "base/resolved_path.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/base/temporary_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

TEST(ResolvedPath, IsOneForAllSpellings) {
  test::TemporaryFolder folder;
  const fs::path root = fs::canonical(folder.path());
  fs::create_directories(root / "real" / "runs");
  fs::create_directory_symlink(root / "real", root / "link");

  EXPECT_EQ(resolved(root / "link" / "runs" / "a"), root / "real" / "runs" / "a");
  EXPECT_EQ(resolved(root / "real" / "." / "runs" / ".." / "a"), root / "real" / "a");
  EXPECT_EQ(resolved("nothing/../there"), fs::current_path() / "there");
}

TEST(ResolvedPath, IsAbsoluteWhereLinksLeadNowhere) {
  test::TemporaryFolder folder;
  const fs::path root = fs::canonical(folder.path());
  fs::create_symlink("circle", root / "circle");

  EXPECT_EQ(resolved(root / "circle" / "a" / ".." / "b"), root / "circle" / "b");
}

}  // namespace
}  // namespace strata
