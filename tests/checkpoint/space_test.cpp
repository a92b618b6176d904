// How much a checkpoint takes is known before the first one is written, and so is whether it fits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_space.h"
#include "tests/base/expect_error.h"
#include "tests/base/small_file_system.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/ranks.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::access_of_rank;
using test::expect_error;
using test::SmallFileSystem;
using test::State;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointSpace : public ::testing::Test {
 protected:
  const fs::path& path() const { return folder_.path(); }
  Bytes size_in_blocks(const fs::path& folder) const {
    Bytes bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder))
      bytes += align_up(static_cast<Bytes>(entry.file_size()), 4 * KiB);
    return bytes;
  }
  static Progress at(std::int64_t step) { return {.step = step, .loss_scale = {}, .sampler = {}}; }

  TemporaryFolder folder_;
  Model model_ = test::tiny_llama(false, 64);
  State state_{model_, 1};
};

TEST_F(CheckpointSpace, IsKnownBeforeHoweverManyRanksSave) {
  for (const int ranks : {1, 2, 3, 8}) {
    Bytes expected = 0;
    test::run_ranks(ranks, [&](Communicator& each) {
      test::FaultyFileSystem files;
      const StateAccess access = access_of_rank(state_, model_, each.rank(), each.size());
      const Bytes bytes = checkpoint_bytes(model_, access, &each);
      if (each.rank() == 0) expected = bytes;
      CheckpointStore(path(), 9, files, &each).save(model_, at(ranks), access);
    });
    const Bytes found = size_in_blocks(path() / fmt::format("step-{:08}", ranks));
    EXPECT_GE(expected, found);
    EXPECT_LE(expected, found + 32 * KiB);  // what is allowed for the manifest
  }
}

TEST_F(CheckpointSpace, ThatDoesNotHoldOneIsRefusedWithWhatIsNeededAndFree) {
  const Bytes needed = checkpoint_bytes(model_, state_.access());
  SmallFileSystem small(needed - 1);
  expect_error<ConfigError>(
      [&] { CheckpointStore(path(), 2, small).check_space(model_, state_.access(), 1); },
      {path().string(), "a checkpoint takes", fmt::format("({} bytes)", needed),
       fmt::format("({} bytes) are free", needed - 1), "free some space"});
  CheckpointStore(path(), 2, small).check_space(model_, state_.access(), 0);
  SmallFileSystem enough(needed);
  CheckpointStore store(path(), 2, enough);
  store.check_space(model_, state_.access(), 1);
  EXPECT_THAT(store.take_warnings(), IsEmpty());
}

TEST_F(CheckpointSpace, ThatDoesNotHoldAllThatAreKeptIsSaid) {
  const Bytes needed = checkpoint_bytes(model_, state_.access());
  SmallFileSystem small(2 * needed);
  CheckpointStore store(path(), 2, small);
  store.check_space(model_, state_.access(), 2);
  EXPECT_THAT(store.take_warnings(), IsEmpty());
  store.check_space(model_, state_.access(), 3);
  EXPECT_THAT(store.take_warnings(),
              ElementsAre(AllOf(HasSubstr("checkpoint.keep 2"), HasSubstr(std::to_string(3 * needed)),
                                HasSubstr(std::to_string(2 * needed)))));
}

TEST_F(CheckpointSpace, OfRanksIsThatOfAllTogether) {
  const auto check = [&](Communicator& ranks, Bytes free) {
    SmallFileSystem files(free);
    CheckpointStore(path(), 2, files, &ranks)
        .check_space(model_, access_of_rank(state_, model_, ranks.rank(), ranks.size()), 1);
  };
  const Bytes alone = checkpoint_bytes(model_, state_.access());
  EXPECT_THAT(test::errors_of_ranks<ConfigError>(4, [&](Communicator& ranks) { check(ranks, alone / 2); }),
              Each(HasSubstr("a checkpoint takes")));
  test::run_ranks(4, [&](Communicator& ranks) { check(ranks, 2 * alone); });
}

TEST_F(CheckpointSpace, LooksAtCheckpointsOfAnUnknownVersionToo) {
  CheckpointStore(path(), 2, test::quick()).save(model_, at(1), state_.access());
  test::set_version(path() / "step-00000001" / "manifest.json", 99);
  expect_error<UnknownVersionError>(
      [&] { CheckpointStore(path(), 2, test::quick()).check_space(model_, state_.access(), 1); },
      {"version 99"});
}

TEST(MostMoreBytes, CountsTheNewOneBesideThoseThatAreKept) {
  EXPECT_EQ(most_more_bytes({}, 10, 2, 0), 0);
  EXPECT_EQ(most_more_bytes({}, 10, 2, 1), 10);
  EXPECT_EQ(most_more_bytes({}, 10, 2, 2), 20);
  EXPECT_EQ(most_more_bytes({}, 10, 2, 3), 30);
  EXPECT_EQ(most_more_bytes({}, 10, 2, 1'000'000'000), 30);
  EXPECT_EQ(most_more_bytes({}, 10, 1, 9), 20);
  EXPECT_EQ(most_more_bytes({10, 10}, 10, 2, 9), 10);
  EXPECT_EQ(most_more_bytes({10}, 10, 2, 9), 20);
  EXPECT_EQ(most_more_bytes({4, 4}, 10, 2, 9), 22);
  EXPECT_EQ(most_more_bytes({10, 10, 10, 10}, 10, 2, 9), 10);
}

}  // namespace
}  // namespace strata
