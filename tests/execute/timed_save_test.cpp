// Checkpoints that are due by the time, and not by steps: they change nothing, and all ranks make them
// together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "tests/base/small_file_system.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::run;
using test::run_ranks;
using test::RunOutcome;
using test::TemporaryFolder;
using test::tiny_run;

class Saves : public test::Warnings {
 public:
  void on_checkpoint(const std::string&) override { ++count_; }
  int count() const { return count_; }

 private:
  int count_ = 0;
};

class TimedSave : public ::testing::Test {
 protected:
  TimedSave() : config_(tiny_run(folder_.path())) {
    config_.train.steps = 8;
    config_.train.precision = DType::fp32;
  }
  RunConfig saving(const std::string& name) const {
    RunConfig config = config_;
    config.checkpoint.path = (folder_ / name).string();
    config.checkpoint.every_minutes = 1e-9;
    config.checkpoint.keep = 100;
    return config;
  }

  const TemporaryFolder folder_;
  RunConfig config_;
};

// Invariant of state and checkpoints (TimedSave.*): A save by time changes no result. All ranks make it
// together.
TEST_F(TimedSave, IsMadeBetweenStepsAndChangesNoBit) {
  const std::string straight = run(config_).result.state_hash;
  for (const bool spills : {false, true}) {
    RunConfig config = saving(spills ? "spilled" : "resident");
    if (spills) config.memory.device = test::smallest_bytes(config);
    Saves saves;
    EXPECT_EQ(run(config, {.listener = &saves}).result.state_hash, straight);
    EXPECT_GE(saves.count(), 3);
    // Each is one that the run goes on from.
    for (const CheckpointEntry& entry : list_checkpoints(FileSystem::real(), config.checkpoint.path)) {
      RunConfig resumed = config;
      resumed.checkpoint.path += "-" + entry.folder.filename().string();
      std::filesystem::create_directory(resumed.checkpoint.path);
      std::filesystem::copy(entry.folder, resumed.checkpoint.path / entry.folder.filename(),
                            std::filesystem::copy_options::recursive);
      EXPECT_EQ(run(resumed).result.state_hash, straight) << entry.folder;
    }
  }
}

TEST_F(TimedSave, IsOfAllRanksWhenTheFirstSaysSo) {
  int number = 0;  // two have one name: they share layers, with and without tokens
  for (const RunConfig& straight : test::shared_by_two_ranks(config_)) {
    RunConfig saved = straight;
    saved.checkpoint = saving(std::to_string(number++)).checkpoint;
    const std::vector<RunOutcome> ranks = run_ranks(saved, 2);
    EXPECT_EQ(ranks[0].result.state_hash, run_ranks(straight, 2)[0].result.state_hash)
        << test::layout_of(straight);
    EXPECT_EQ(ranks[0].result.counters.step, 8);
    EXPECT_GE(list_checkpoints(FileSystem::real(), saved.checkpoint.path).size(), 2U);
  }
}

TEST_F(TimedSave, DoesNotWaitForTimeThatHasNotPassed) {
  RunConfig config = saving("late");
  for (const double minutes : {0.0, 30.0}) {
    config.checkpoint.every_minutes = minutes;
    Saves saves;
    run(config, {.fresh = true, .listener = &saves});
    EXPECT_EQ(saves.count(), 1) << "at the end";
  }
}

}  // namespace
}  // namespace strata
