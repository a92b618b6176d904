#include "engine/data/mapped_file.h"

#include <sys/stat.h>

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

}  // namespace
}  // namespace strata
