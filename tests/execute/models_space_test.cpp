// Several models and a full disk: refused before the first step if that is certain; otherwise it is said, and
// who finds no space is tried again while others go on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "base/system_error.h"
#include "engine/config/run_config.h"
#include "tests/base/expect_error.h"
#include "tests/base/small_file_system.h"
#include "tests/checkpoint/support.h"
#include "tests/execute/several_models.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::JointOutcome;
using test::names_in;
using test::run_together;
using test::TemporaryFolder;
using test::tiny_run;
using test::Warnings;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Names = std::set<std::string>;

/// Checkpoints that are written into one folder find the disk full, until it has space again.
class FullFolder : public test::FaultyFileSystem {
 public:
  /// The first `attempts` to write one find no space.
  FullFolder(fs::path folder, int attempts) : folder_(std::move(folder)), attempts_(attempts) {}
  void write(int descriptor, std::span<const std::byte> bytes, const fs::path& path) override {
    const fs::path checkpoint = path.parent_path();
    if (checkpoint.parent_path() == folder_ && checkpoint.extension() == ".tmp" && attempts_ > 0) {
      --attempts_;
      throw_system_error("write", path, ENOSPC);
    }
    FaultyFileSystem::write(descriptor, bytes, path);
  }

 private:
  fs::path folder_;
  int attempts_;
};

/// Three models. The second ends first.
class ModelsThatLackSpace : public ::testing::Test {
 protected:
  ModelsThatLackSpace() : configs_(3, tiny_run(folder_.path())) {
    for (std::size_t m = 0; m < configs_.size(); ++m) {
      configs_[m].train.steps = m == 1 ? 4 : 8;
      configs_[m].train.seed = 5 + m;
      configs_[m].checkpoint.path = path_of(m).string();
      configs_[m].checkpoint.wait_for_space_seconds = 0;
    }
  }
  fs::path path_of(std::size_t m) const { return folder_.path() / "out" / fmt::format("{}", m); }
  JointOutcome run(FileSystem& files) {
    return run_together(configs_,
                        {.listeners = {&warnings_[0], &warnings_[1], &warnings_[2]}, .files = &files});
  }
  void expect_solo(const JointOutcome& outcome, std::size_t m) const {
    RunConfig alone = configs_[m];
    alone.checkpoint.path.clear();
    EXPECT_EQ(outcome.results[m].state_hash, test::run(alone).result.state_hash);
  }
  void expect_all_are_solo(const JointOutcome& outcome) const {
    for (std::size_t m = 0; m < configs_.size(); ++m) {
      expect_solo(outcome, m);
      EXPECT_EQ(outcome.results[m].ended, "");
      EXPECT_FALSE(outcome.results[m].has_failed);
      EXPECT_TRUE(names_in(path_of(m)).contains(fmt::format("step-{:08}", configs_[m].train.steps)));
    }
  }

  TemporaryFolder folder_;
  std::vector<RunConfig> configs_;
  std::array<Warnings, 3> warnings_;
};

TEST_F(ModelsThatLackSpace, ForOneCheckpointOfEachAreRefusedBeforeAnyStep) {
  run(test::quick());
  Bytes one = 0;
  for (const auto& file : fs::directory_iterator(path_of(0) / "step-00000008"))
    one += static_cast<Bytes>(file.file_size());
  fs::remove_all(folder_.path() / "out");
  test::SmallFileSystem two_and_a_half(5 * one / 2);  // enough for any alone
  test::expect_error<ConfigError>([&] { run(two_and_a_half); },
                                  {path_of(0).string() + " and 2 more on its filesystem", "are lacking"});
  for (std::size_t m = 0; m < 3; ++m) EXPECT_THAT(names_in(path_of(m)), IsEmpty());
}

TEST_F(ModelsThatLackSpace, AtTheirEndAreTriedAgainWhileOthersGoOn) {
  FullFolder files(path_of(1), 2);
  for (RunConfig& config : configs_) config.train.validate_every = 2;  // models stand still
  expect_all_are_solo(run(files));
  EXPECT_THAT(warnings_[1].all(),
              AllOf(SizeIs(2), Each(AllOf(HasSubstr("the checkpoint of step 4 was not saved"),
                                          HasSubstr("No space left on device"),
                                          HasSubstr("it waits for space while others continue")))));
  for (const std::size_t m : {0, 2}) EXPECT_THAT(warnings_[m].all(), IsEmpty());
}

TEST_F(ModelsThatLackSpace, WhileTheyAreTrainedGiveUpThatCheckpointAlone) {
  for (RunConfig& config : configs_) config.checkpoint.every = 2;
  FullFolder files(path_of(2), 1);
  const JointOutcome outcome = run(files);
  expect_all_are_solo(outcome);
  EXPECT_THAT(warnings_[2].all(), ElementsAre(AllOf(HasSubstr("the checkpoint of step 2 was not saved"),
                                                    HasSubstr("the run continues"))));
  EXPECT_EQ(outcome.results[2].saves, 3);
  EXPECT_EQ(outcome.results[0].saves, 4);
}

TEST_F(ModelsThatLackSpace, ToTheEndAreEndedAloneAndGoOnWhenThereIsSome) {
  FullFolder files(path_of(1), 1'000'000);
  const JointOutcome outcome = run(files);
  for (const std::size_t m : {0, 2}) {
    expect_solo(outcome, m);
    EXPECT_EQ(outcome.results[m].ended, "");
    EXPECT_EQ(names_in(path_of(m)), (Names{"step-00000008"}));
  }
  EXPECT_TRUE(outcome.results[1].has_failed);
  EXPECT_THAT(outcome.results[1].ended,
              AllOf(HasSubstr("it could not be saved: "), HasSubstr("No space left on device")));
  EXPECT_THAT(names_in(path_of(1)), IsEmpty());
  expect_all_are_solo(run(test::quick()));
}

}  // namespace
}  // namespace strata
