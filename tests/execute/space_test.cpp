// Runs whose disk is full: refused before the first step if that is certain; otherwise a checkpoint that
// finds no space is said, and the one that ends the run is tried again.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "base/system_error.h"
#include "engine/config/run_config.h"
#include "engine/run/execute/space_wait.h"
#include "tests/base/expect_error.h"
#include "tests/base/small_file_system.h"
#include "tests/checkpoint/support.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::names_in;
using test::run;
using test::SmallFileSystem;
using test::TemporaryFolder;
using test::tiny_run;
using test::Warnings;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Names = std::set<std::string>;

/// The first `attempts` attempts to write a checkpoint find the disk full.
class FullFileSystem : public test::FaultyFileSystem {
 public:
  explicit FullFileSystem(int attempts) : attempts_(attempts) {}
  void write(int descriptor, std::span<const std::byte> bytes, const fs::path& path) override {
    if (path.parent_path().extension() == ".tmp" && attempts_-- > 0)
      throw_system_error("write", path, ENOSPC);
    FaultyFileSystem::write(descriptor, bytes, path);
  }

 private:
  std::atomic<int> attempts_;
};

class LackOfSpace : public ::testing::Test {
 protected:
  LackOfSpace() : config_(tiny_run(folder_.path())) {
    config_.train.steps = 4;
    expected_ = run(config_).result.state_hash;
    config_.checkpoint.path = (folder_.path() / "out").string();
  }

  TemporaryFolder folder_;
  RunConfig config_;
  std::string expected_;
  Warnings warnings_;
};

TEST_F(LackOfSpace, AtTheEndOfARunIsSaidAndSavingTriedAgain) {
  FullFileSystem files(2);
  EXPECT_EQ(run(config_, {.files = &files, .listener = &warnings_}).result.state_hash, expected_);
  EXPECT_THAT(warnings_.all(),
              ElementsAre(AllOf(HasSubstr("the checkpoint of step 4 was not saved"),
                                HasSubstr("No space left on device"), HasSubstr("for 3600 seconds"))));
  EXPECT_TRUE(names_in(config_.checkpoint.path).contains("step-00000004"));
  EXPECT_EQ(run(config_).result.state_hash, expected_);
}

TEST_F(LackOfSpace, AtTheEndOfARunOfSeveralRanksKeepsAllAlive) {
  for (const int failing : {0, 1, 2}) {
    config_.checkpoint.path = (folder_.path() / fmt::format("out-{}", failing)).string();
    FullFileSystem full(2);
    std::vector<test::FaultyFileSystem> files(3);
    const auto outcomes = test::run_ranks(config_, 3, [&](int rank) {
      return test::RunOptions{.files = rank == failing ? static_cast<FileSystem*>(&full) : &files[rank]};
    });
    EXPECT_EQ(names_in(config_.checkpoint.path), (Names{"step-00000004"}));
    // One rank goes on from it, with nothing left to do.
    EXPECT_EQ(run(config_).result.state_hash, outcomes[0].result.state_hash);
  }
}

TEST_F(LackOfSpace, ThatLastsEndsTheRunWithItsReason) {
  config_.checkpoint.wait_for_space_seconds = 0;
  FullFileSystem files(1'000'000);
  expect_error<SystemError>([&] { run(config_, {.files = &files, .listener = &warnings_}); },
                            {"the checkpoint of step 4 was not saved", "No space left on device"});
  EXPECT_THAT(warnings_.all(), IsEmpty());
  config_.checkpoint.wait_for_space_seconds = 1;
  expect_error<SystemError>([&] { run(config_, {.files = &files, .listener = &warnings_}); },
                            {"No space left on device"});
  EXPECT_EQ(warnings_.all().size(), 1U);
  EXPECT_THAT(names_in(config_.checkpoint.path), IsEmpty());
}

TEST_F(LackOfSpace, WhileTrainingGoesOnIsSaidAndTheNextCheckpointIsSaved) {
  config_.checkpoint.every = 2;
  FullFileSystem files(1);
  const auto outcome = run(config_, {.files = &files, .listener = &warnings_});
  EXPECT_EQ(outcome.result.state_hash, expected_);
  EXPECT_EQ(outcome.result.saves, 1);
  EXPECT_THAT(warnings_.all(), ElementsAre(AllOf(HasSubstr("the checkpoint of step 2 was not saved"),
                                                 HasSubstr("the run continues"))));
  EXPECT_EQ(names_in(config_.checkpoint.path), (Names{"step-00000004"}));
}

TEST_F(LackOfSpace, OfTheLastCheckpointBesideTrainingIsTriedAgainAtTheEnd) {
  config_.checkpoint.every = 4;
  FullFileSystem files(2);
  EXPECT_EQ(run(config_, {.files = &files, .listener = &warnings_}).result.state_hash, expected_);
  EXPECT_EQ(warnings_.all().size(), 2U);
  EXPECT_EQ(names_in(config_.checkpoint.path), (Names{"step-00000004"}));
}

/// Fails the test at the first step.
class NoStep : public Warnings {
 public:
  void on_step(const StepReport&) override { ADD_FAILURE() << "a step"; }
};

TEST_F(LackOfSpace, ThatIsCertainIsFoundBeforeTheFirstStep) {
  SmallFileSystem files(64 * KiB);
  NoStep listener;
  for (const std::int64_t every : {0, 2}) {
    config_.checkpoint.every = every;
    expect_error<ConfigError>([&] { run(config_, {.files = &files, .listener = &listener}); },
                              {config_.checkpoint.path, "a checkpoint takes", "(65536 bytes) are free"});
  }
}

TEST_F(LackOfSpace, DoesNotMatterToARunThatHasNothingToSave) {
  run(config_, {.files = &test::quick()});
  SmallFileSystem files(0);
  EXPECT_EQ(run(config_, {.files = &files, .listener = &warnings_}).result.state_hash, expected_);
  EXPECT_THAT(warnings_.all(), IsEmpty());
}

TEST_F(LackOfSpace, ForAllThatAreKeptIsAWarning) {
  config_.checkpoint.every = 1;
  run(config_, {.files = &test::quick()});
  const std::string path = config_.checkpoint.path + "/step-00000004";
  Bytes size = 0;
  for (const auto& file : fs::directory_iterator(path)) size += static_cast<Bytes>(file.file_size());
  SmallFileSystem files(2 * size);
  config_.train.steps = 6;
  run(config_, {.files = &files, .listener = &warnings_});
  EXPECT_THAT(warnings_.all(), IsEmpty());  // the two that are there become two others, one at a time
  run(config_, {.fresh = true, .files = &files, .listener = &warnings_});
  EXPECT_THAT(warnings_.all(),
              ElementsAre(HasSubstr("--fresh: what was trained before, up to step-00000006, is kept"),
                          AllOf(HasSubstr("checkpoint.keep 2"), HasSubstr("at once"))));
  warnings_ = {};
  fs::remove_all(config_.checkpoint.path);
  run(config_, {.files = &files, .listener = &warnings_});
  EXPECT_THAT(warnings_.all(), ElementsAre(AllOf(HasSubstr("checkpoint.keep 2"), HasSubstr("at once"))));
}

TEST_F(LackOfSpace, IsNoLongerWaitedForWhenTheUserAsksForTheEnd) {
  std::atomic<bool> stop = false;
  int asked = 0;
  const auto full = [] { throw SystemError("full", ENOSPC); };
  EXPECT_THROW(save_in_space(full, {.seconds = 3600,
                                    .has_space = [] { return false; },
                                    .is_over = [&] { return stop.load(); },
                                    .on_wait =
                                        [&](const std::string&) {
                                          ++asked;
                                          stop = true;
                                        }}),
               SystemError);
  EXPECT_EQ(asked, 1);
}

TEST_F(LackOfSpace, IsNotWhatOtherFailuresAre) {
  const auto broken = [] { throw SystemError("broken", EIO); };
  const SpaceWait wait{.seconds = 3600,
                       .has_space = [] { return true; },
                       .is_over = [] { return false; },
                       .on_wait = [](const std::string&) { ADD_FAILURE() << "waits"; }};
  EXPECT_THROW(save_in_space(broken, wait), SystemError);
}

TEST_F(LackOfSpace, ACheckpointOfAnUnknownVersionIsKeptByAFreshRunAndRefusedByAnyOther) {
  run(config_, {.files = &test::quick()});
  const fs::path folder = config_.checkpoint.path;
  test::set_version(folder / "step-00000004" / "manifest.json", 99);
  const std::string manifest = read_file(folder / "step-00000004" / "manifest.json");
  NoStep listener;
  expect_error<UnknownVersionError>([&] { run(config_, {.files = &test::quick(), .listener = &listener}); },
                                    {"step-00000004", "version 99", "another checkpoint.path"});
  run(config_, {.fresh = true, .files = &test::quick()});
  EXPECT_EQ(read_file(folder / "set-aside" / "step-00000004" / "manifest.json"), manifest);
}

TEST_F(LackOfSpace, ASecondRunInOneCheckpointPathIsRefused) {
  class Second : public TrainListener {
   public:
    explicit Second(const RunConfig& config) : config_(config) {}
    void on_start(const std::string&) override {
      expect_error<ConfigError>([&] { run(config_); }, {"checkpoint.path", "is in use by"});
    }

   private:
    RunConfig config_;
  };
  Second second(config_);
  EXPECT_EQ(run(config_, {.listener = &second}).result.state_hash, expected_);
  EXPECT_EQ(names_in(config_.checkpoint.path), (Names{"step-00000004"}));
}

}  // namespace
}  // namespace strata
