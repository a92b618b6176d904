// Several models whose runs have stages of a pipeline: each has the bits of its run alone on the same mesh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/several_models.h"

namespace strata {
namespace {

using test::JointOptions;
using test::JointOutcome;
using test::losses_of;
using test::run_together_on;
using enum PipelineSchedule;

class SeveralPipelines : public ::testing::Test {
 protected:
  RunConfig config(PipelineSchedule schedule = one_f_one_b, int chunks = 1) const {
    RunConfig config = test::tiny_run(folder_.path());
    config.train.batch = 8;
    config.train.microbatch = 2;
    config.train.threads = 1;
    config.parallel.pipeline = 2;
    config.parallel.schedule = schedule;
    config.parallel.chunks = chunks;
    return config;
  }

  /// Makes runs of several architectures, sizes, lengths and schedules.
  std::vector<RunConfig> mixed_runs() const {
    std::vector<RunConfig> configs = {config(), config(zero_bubble), config(gpipe), config(interleaved, 2)};
    configs[0].train.validate_every = 1;
    configs[1].optimizer.learning_rate = 3e-3;
    configs[1].train.seed = 7;
    configs[1].model.config["tie_word_embeddings"] = false;
    configs[2].model.architecture = "gpt2";
    configs[2].model.config = {{"n_layer", 2}, {"n_embd", 24}, {"n_head", 3}, {"vocab_size", 128}};
    configs[2].train.steps = 6;
    configs[2].train.batch = 4;
    configs[3].train.steps = 3;
    configs[3].optimizer.clip_norm = 0;
    configs[3].train.validate_every = 2;
    configs[3].train.validation_batches = 2;
    return configs;
  }

  /// Each model has on each rank what its run alone leaves there, and the plans were exact.
  void expect_solo_bits(const std::vector<RunConfig>& configs, const std::vector<JointOutcome>& ranks) const {
    for (std::size_t m = 0; m < configs.size(); ++m) {
      SCOPED_TRACE(m);
      const auto solo = test::run_ranks(configs[m], static_cast<int>(ranks.size()));
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const TrainResult& result = ranks[rank].results[m];
        EXPECT_EQ(result.state_hash, solo[rank].result.state_hash);
        EXPECT_EQ(losses_of(result), losses_of(solo[rank].result));
        EXPECT_EQ(result.ended, "");
      }
    }
    for (const JointOutcome& rank : ranks) test::expect_the_plans_were_exact(rank);
  }

  test::TemporaryFolder folder_;
};

// Invariant of several models (SeveralPipelines.*): Several pipelines are their runs alone. Each keeps its
// results under every schedule, order and budget, on the same mesh or beside models of other meshes. Ranks
// meet in every order. One model computes in the bubbles of another.
TEST_F(SeveralPipelines, HaveTheBitsOfTheirRunsAlone) {
  expect_solo_bits(mixed_runs(), run_together_on(2, mixed_runs()));
}

TEST_F(SeveralPipelines, HaveThemInEveryOrder) {
  const std::vector<RunConfig> configs = mixed_runs();
  for (const std::string order :
       {"step after step", "step after step, bubbles filled", "longest remaining time first, bubbles filled",
        "staggered, 2 under way, bubbles filled", "staggered, 4 under way, bubbles filled"}) {
    SCOPED_TRACE(order);
    const std::vector<JointOutcome> ranks =
        run_together_on(2, configs, [&](int) { return JointOptions{.order = order}; });
    for (const Plan& plan : ranks.front().plans) EXPECT_EQ(plan.merged->sequences.front().name, order);
    expect_solo_bits(configs, ranks);
  }
}

TEST_F(SeveralPipelines, HaveThemWithinBudgetsThatHoldNoneOfThem) {
  std::vector<RunConfig> configs = mixed_runs();
  Bytes smallest = 0;
  for (const RunConfig& config : configs) smallest = std::max(smallest, test::smallest_bytes(config));
  for (RunConfig& config : configs) config.memory.device = smallest + smallest / 4;
  expect_solo_bits(configs, run_together_on(2, configs));
  for (RunConfig& config : configs) config.plan.lanes = LaneMode::serial;
  expect_solo_bits(configs, run_together_on(2, configs));
}

TEST_F(SeveralPipelines, HaveThemWithStateOnDrives) {
  std::vector<RunConfig> configs = mixed_runs();
  for (RunConfig& config : configs) {
    config.memory.device = 512 * KiB;
    config.memory.host = 700 * KiB;
    config.memory.nvme_path = {folder_.path().string()};
    config.memory.nvme_size = 64 * MiB;
  }
  expect_solo_bits(configs, run_together_on(2, configs));
}

TEST_F(SeveralPipelines, HaveThemBesideDataAndTensorRanks) {
  for (const int tensor : {1, 2}) {
    SCOPED_TRACE(tensor);
    std::vector<RunConfig> configs = {config(), config(zero_bubble)};
    configs[1].train.seed = 3;
    configs[1].train.steps = 2;
    for (RunConfig& config : configs) config.parallel.tensor = tensor;
    expect_solo_bits(configs, run_together_on(4, configs));
  }
}

TEST_F(SeveralPipelines, HaveThemBesideModelsOfOtherMeshes) {
  std::vector<RunConfig> configs = {config(), config(), config(gpipe)};
  configs[1].parallel.pipeline = 1;
  configs[1].parallel.zero_stage = 2;
  configs[2].train.seed = 5;
  expect_solo_bits(configs, run_together_on(2, configs));
  configs[1].parallel.tensor = 2;
  expect_solo_bits(configs, run_together_on(4, configs));
}

TEST_F(SeveralPipelines, GoOnWithoutOneThatDiverges) {
  std::vector<RunConfig> configs = {config(), config(), config(zero_bubble)};
  for (RunConfig& config : configs) {
    config.train.steps = 6;
    config.train.precision = DType::fp32;
  }
  configs[1].optimizer.learning_rate = 1e39;  // not finite as fp32
  configs[1].optimizer.clip_norm = 0;
  const std::vector<JointOutcome> ranks = run_together_on(2, configs);
  for (const JointOutcome& rank : ranks) {
    EXPECT_THAT(rank.results[1].ended, testing::HasSubstr("its loss is not finite at step "));
    EXPECT_EQ(rank.results[1].counters.step, ranks[0].results[1].counters.step);
    EXPECT_LT(rank.results[1].counters.step, configs[1].train.steps);
  }
  for (const std::size_t m : {0, 2}) {
    const std::string hash = test::run_ranks(configs[m], 2)[0].result.state_hash;
    for (const JointOutcome& rank : ranks) EXPECT_EQ(rank.results[m].state_hash, hash);
  }
}

TEST_F(SeveralPipelines, GoOnFromWhatAStopHasSaved) {
  std::vector<RunConfig> configs = mixed_runs(), saved = configs;
  for (std::size_t m = 0; m < configs.size(); ++m) {
    saved[m].checkpoint.path = (folder_.path() / std::to_string(m)).string();
    saved[m].checkpoint.every = 2;
  }
  std::atomic<bool> stop = false;
  test::StopAfter listener(2, stop);
  TrainListener silent;
  const std::vector<JointOutcome> stopped = run_together_on(2, saved, [&](int rank) {
    return rank == 0 ? JointOptions{}
                     : JointOptions{.stop = &stop, .listeners = {&listener, &silent, &silent, &silent}};
  });
  for (const JointOutcome& rank : stopped) {
    EXPECT_TRUE(rank.results[0].interrupted);
    EXPECT_EQ(rank.results[0].counters.step, stopped[0].results[0].counters.step);
  }
  const std::vector<JointOutcome> rest = run_together_on(2, saved);
  for (std::size_t m = 0; m < configs.size(); ++m) {
    const std::string hash = test::run_ranks(configs[m], 2)[0].result.state_hash;
    for (const JointOutcome& rank : rest) EXPECT_EQ(rank.results[m].state_hash, hash) << m;
  }
}

}  // namespace
}  // namespace strata
