// How much a checkpoint takes is known before the first one is written, and so is whether it fits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/agreement.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "engine/run/checkpoint/checkpoint_space.h"
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
  /// The warnings of a run that saves so often.
  std::vector<std::string> check(FileSystem& files, std::int64_t saves) {
    return sentences({CheckpointStore(path(), 2, files).space_needed(model_, state_.access(), saves)});
  }
  static std::vector<std::string> sentences(const std::vector<SpaceNeed>& needs) {
    std::vector<std::string> sentences;
    for (const SpaceWarning& warning : check_space(needs)) sentences.push_back(warning.sentence);
    return sentences;
  }
  static Progress at(std::int64_t step) {
    return {.counters = {.step = step}, .loss_scale = {}, .sampler = {}};
  }

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
  expect_error<ConfigError>([&] { check(small, 1); },
                            {path().string(), "a checkpoint takes", fmt::format("({} bytes)", needed),
                             fmt::format("({} bytes) are free", needed - 1), "free some space"});
  EXPECT_THAT(check(small, 0), IsEmpty());
  SmallFileSystem enough(needed);
  EXPECT_THAT(check(enough, 1), IsEmpty());
}

TEST_F(CheckpointSpace, ThatDoesNotHoldAllThatAreKeptIsSaid) {
  const Bytes needed = checkpoint_bytes(model_, state_.access());
  SmallFileSystem small(2 * needed);
  EXPECT_THAT(check(small, 2), IsEmpty());
  EXPECT_THAT(check(small, 3),
              ElementsAre(AllOf(HasSubstr("checkpoint.keep 2"), HasSubstr(std::to_string(3 * needed)),
                                HasSubstr(std::to_string(2 * needed)))));
}

TEST_F(CheckpointSpace, OfRanksIsThatOfAllTogether) {
  const auto check = [&](Communicator& ranks, Bytes free) {
    SmallFileSystem files(free);
    const StateAccess access = access_of_rank(state_, model_, ranks.rank(), ranks.size());
    const SpaceNeed need = CheckpointStore(path(), 2, files, &ranks).space_needed(model_, access, 1);
    on_first_rank(&ranks, [&] { check_space({need}); });
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
      [&] { CheckpointStore(path(), 2, test::quick()).space_needed(model_, state_.access(), 1); },
      {"version 99"});
}

TEST_F(CheckpointSpace, OfAModelCountsWhatItsNextOneReplaces) {
  const Bytes each = checkpoint_bytes(model_, state_.access());
  const auto need = [&] { return CheckpointStore(path(), 2).space_needed(model_, state_.access(), 9); };
  EXPECT_EQ(need().after_one, each);
  Bytes there = 0;
  for (const std::int64_t step : {1, 2}) {
    CheckpointStore(path(), 2, test::quick()).save(model_, at(step), state_.access());
    const SpaceNeed now = need();
    EXPECT_EQ(now.each, each);
    EXPECT_EQ(now.filesystem, FileSystem::real().filesystem_of("/tmp"));
    there = each - now.after_one;
  }
  EXPECT_GT(there, each / 2);
  EXPECT_LE(there, each);
}

/// A need of a model whose next checkpoint takes that much, and with `replaces` gives back some.
SpaceNeed need_of(const std::string& path, std::uint64_t filesystem, Bytes free, Bytes each,
                  Bytes replaces = 0) {
  return {.path = path,
          .filesystem = filesystem,
          .free = free,
          .each = each,
          .after_one = each - replaces,
          .most = 2 * each - replaces};
}

TEST(SpaceOfSeveralModels, IsRefusedIfTheNextCheckpointOfEachDoesNotFit) {
  const auto needs = [](Bytes free) {
    return std::vector{need_of("out/a", 7, free, 100), need_of("elsewhere", 8, 1000, 100),
                       need_of("out/b", 7, free, 50), need_of("out/c", 7, free, 200)};
  };
  expect_error<ConfigError>(
      [&] { check_space(needs(349)); },
      {"checkpoint.path out/a and 2 more on its filesystem", "(350 bytes), and", "(349 bytes) are free there",
       "so 1 B (1 bytes) are lacking", "free some space"});
  EXPECT_NO_THROW(check_space(needs(350)));
  // What fits for none is said of that one.
  expect_error<ConfigError>([&] { check_space(needs(199)); }, {"checkpoint.path out/c: a checkpoint takes"});
}

TEST(SpaceOfSeveralModels, HoldsThoseThatReplaceOthersOneAfterAnother) {
  const std::vector<SpaceNeed> needs = {need_of("a", 7, 100, 100, 100), need_of("b", 7, 100, 100, 100)};
  const std::vector<SpaceWarning> warnings = check_space(needs);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].need, 0U);
  EXPECT_THAT(warnings[0].sentence,
              AllOf(HasSubstr("checkpoint.path a and 1 more on its filesystem"),
                    HasSubstr("up to 200 B more at once (200 bytes), and 100 B (100 bytes) are free there, "
                              "so 100 B (100 bytes) are lacking"),
                    HasSubstr("only when the new one is whole")));
}

TEST(SpaceOfSeveralModels, IsWarnedOfOncePerFilesystem) {
  const auto needs = [](Bytes free) {
    return std::vector{need_of("saves nothing", 7, 0, 0), need_of("a", 7, free, 100),
                       need_of("b", 8, 200, 100), need_of("c", 7, free, 100), need_of("d", 9, 150, 100)};
  };
  std::vector<std::size_t> about;
  for (const SpaceWarning& warning : check_space(needs(399))) about.push_back(warning.need);
  EXPECT_THAT(about, ElementsAre(1U, 4U));
  EXPECT_EQ(check_space(needs(400)).size(), 1U);
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
