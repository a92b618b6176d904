#include "engine/input/data/mapped_file.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "tests/base/expect_error.h"
#include "tests/base/temporary_folder.h"

namespace strata {
namespace {

TEST(MappedFile, OfAPipeIsRefusedAndNotWaitedFor) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  test::expect_error<ConfigError>([&] { MappedFile((folder / "pipe").string()); },
                                  {(folder / "pipe").string(), "is not a regular file"});
}

TEST(MappedFile, ThatIsCutShortIsNamed) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "tokens.bin").string();
  std::ofstream(path) << std::string(100'000, 'x');
  EXPECT_EXIT(
      {
        leave_if_cut_short([](const std::string& sentence) {
          std::cerr << sentence;
          std::_Exit(1);
        });
        const MappedFile file(path);
        std::filesystem::resize_file(path, 1);
        std::cerr << std::to_integer<int>(file.bytes().back());
      },
      ::testing::ExitedWithCode(1), "tokens.bin was cut short by another program while it was read");
}

}  // namespace
}  // namespace strata
