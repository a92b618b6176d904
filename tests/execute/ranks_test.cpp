// Several ranks train as one does: whatever they share out, wherever it lives.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/gradients.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::run;
using test::run_ranks;
using test::RunOptions;
using test::RunOutcome;
using test::StopAfter;

enum class Where { resident, host, nvme };

struct DataLayout {
  int stage = 3, ranks = 2, replicate = 1;
};

std::string name_of(const DataLayout& layout) {
  return fmt::format("stage_{}_on_{}_ranks{}", layout.stage, layout.ranks,
                     layout.replicate > 1 ? fmt::format("_{}_replicas", layout.replicate) : "");
}

constexpr std::int64_t kDataSteps = 20;

class RanksOfAnyStage : public ::testing::Test {
 protected:
  RunConfig config(const DataLayout& layout = {}) const {
    RunConfig config = test::tiny_run(folder_.path());
    config.train.batch = 12;
    config.train.microbatch = 1;
    config.train.steps = kDataSteps;
    config.train.precision = DType::fp32;
    config.train.threads = 1;
    config.parallel.data = layout.ranks;
    config.parallel.replicate = layout.replicate;
    config.parallel.zero_stage = layout.stage;
    return config;
  }

  RunConfig placed(RunConfig config, Where where) const {
    if (where == Where::resident) return config;
    config.memory.device = test::smallest_bytes(config);
    if (where == Where::host) return config;
    config.memory.nvme_path = {folder_.path().string()};
    config.memory.parameters = config.memory.optimizer_state = TierChoice::nvme;
    return config;
  }

  test::TemporaryFolder folder_;
};

class RanksRun : public RanksOfAnyStage, public ::testing::WithParamInterface<DataLayout> {
 protected:
  /// The state after three steps, which is the same on all ranks. Each rank must have been planned exactly.
  std::string hash_of_exact_run(Where where, std::optional<Order> order = {}) const {
    RunConfig config = placed(this->config(GetParam()), where);
    config.train.steps = 3;
    config.plan.order = order;
    const std::vector<RunOutcome> ranks = run_ranks(config, GetParam().ranks);
    for (const RunOutcome& rank : ranks) {
      EXPECT_EQ(rank.result.state_hash, ranks[0].result.state_hash);
      expect_the_plan_was_exact(rank);
    }
    return ranks[0].result.state_hash;
  }
};

// Invariant of ranks (RanksRun.*): Ranks of every ZeRO stage are one run. Stages 0 to 3 on 1 to 4 ranks,
// hybrid sharding included, follow the run of one rank within 1e-5 in fp32. That holds for losses of 20 steps
// and for the gradient of each tensor. All placements of a layout have the same bits.
TEST_P(RanksRun, FollowsTheRunOfOneRankInLossesAndGradients) {
  test::expect_equal_runs(this->config({.ranks = 1}), this->config(GetParam()), GetParam().ranks);
}

TEST_P(RanksRun, HasTheSameBitsInAnyOrderAndWithItsStateOnTheHost) {
  const std::string hash = hash_of_exact_run(Where::resident, Order::layer_major);
  EXPECT_EQ(hash_of_exact_run(Where::resident, Order::microbatch_major), hash);
  EXPECT_EQ(hash_of_exact_run(Where::host), hash);
}

// Invariant (RanksOfAnyStage.*): Ranks of every ZeRO stage are one run.
TEST_F(RanksOfAnyStage, HaveTheSameBitsWhereParametersStayGatheredAndWhereTheyDoNot) {
  for (const bool tied : {true, false}) {
    for (const Order order : {Order::layer_major, Order::microbatch_major}) {
      RunConfig config = this->config({.ranks = 2});
      config.model.config["tie_word_embeddings"] = tied;
      config.model.config["num_hidden_layers"] = 5;
      config.train.steps = 3;
      config.train.batch = 4;
      config.plan.order = order;
      const Bytes least = test::smallest_bytes(config), most = test::resident_bytes(config);
      std::set<std::string> hashes;
      std::set<Bytes> gathered;
      for (Bytes twelfths = 0; twelfths <= 12; ++twelfths) {
        config.memory.device = least + (most - least) * twelfths / 12;
        for (const RunOutcome& rank : run_ranks(config, 2)) {
          expect_the_plan_was_exact(rank);
          hashes.insert(rank.result.state_hash);
          gathered.insert(rank.plan.training().moved(Link::all_gather));
        }
      }
      EXPECT_EQ(hashes.size(), 1U);
      EXPECT_GE(gathered.size(), 3U);
    }
  }
}

TEST_P(RanksRun, HasTheSameBitsWithItsStateOnADrive) {
  if (const std::string reason = test::why_no_drive(folder_.path()); !reason.empty()) GTEST_SKIP() << reason;
  EXPECT_EQ(hash_of_exact_run(Where::nvme), hash_of_exact_run(Where::resident));
}

TEST_F(RanksOfAnyStage, SendWhatIsPlannedOfUnitsWhoseSumsAreMadeInPartsToo) {
  RunConfig config = this->config({.stage = 0, .ranks = 3});
  config.train.steps = 2;
  config.model.config["vocab_size"] = 1000;
  Bytes gradients = 0;
  for (const Unit& unit : test::model_of(config).units) gradients += unit.elements * size_of(DType::fp32);
  for (const RunOutcome& rank : run_ranks(config, 3)) {
    EXPECT_LT(rank.plan.training().moved(Link::all_reduce), 2 * gradients);  // sent whole to both others
    expect_the_plan_was_exact(rank);
  }
}

TEST_F(RanksOfAnyStage, HaveTheSameBits) {
  std::string hash;
  for (const int stage : {0, 1, 2, 3}) {
    RunConfig config = this->config({.stage = stage, .ranks = 3});
    config.train.steps = 3;
    const std::string found = run_ranks(config, 3).front().result.state_hash;
    if (hash.empty()) hash = found;
    EXPECT_EQ(found, hash) << "stage " << stage;
  }
}

TEST_F(RanksOfAnyStage, KeepsSmallStateAndReducesInBf16WithTheBitsOfEveryPlacement) {
  for (const auto& [reduce, master, moments] :
       {std::tuple{ReduceDtype::fp32, MasterFormat::none, MomentFormat::coded},
        std::tuple{ReduceDtype::bf16, MasterFormat::split, MomentFormat::bf16}}) {
    for (const int stage : {1, 3}) {
      RunConfig config = this->config({.stage = stage, .ranks = 3});
      config.train.steps = 3;
      config.train.precision = DType::bf16;
      config.parallel.reduce_dtype = reduce;
      config.optimizer.master = master;
      config.optimizer.moments = moments;
      const std::vector<RunOutcome> resident = run_ranks(config, 3);
      const std::vector<RunOutcome> hosted = run_ranks(placed(config, Where::host), 3);
      EXPECT_EQ(hosted[0].result.state_hash, resident[0].result.state_hash);
      for (const RunOutcome& rank : hosted) expect_the_plan_was_exact(rank);
    }
  }
}

TEST_F(RanksOfAnyStage, SkipAStepThatOverflowsWithoutATrace) {
  for (const int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    RunConfig config = this->config({.stage = stage, .ranks = 2});
    config.train.steps = 14;
    config.train.precision = DType::fp16;
    config.train.loss_scale_initial = std::ldexp(1.0, 24);
    RunConfig alone = config;
    alone.parallel.data = 1;
    const RunOutcome expected = run(alone);
    ASSERT_GT(expected.result.counters.skipped, 0);
    ASSERT_GT(expected.result.counters.updates, 0);
    for (const Where where : {Where::resident, Where::host}) {
      for (const RunOutcome& rank : run_ranks(placed(config, where), 2)) {
        EXPECT_EQ(rank.result.counters.skipped, expected.result.counters.skipped);
        for (std::size_t step = 0; step < expected.result.steps.size(); ++step) {
          const double loss = expected.result.steps[step].loss;
          EXPECT_NEAR(rank.result.steps[step].loss, loss, 1e-3 * loss) << step;
        }
      }
    }
  }
}

TEST_F(RanksOfAnyStage, ValidateOnWhatOneRankValidatesOn) {
  RunConfig config = this->config({.ranks = 3});
  config.train.steps = 2;
  config.train.validate_every = 1;
  config.train.validation_batches = 5;  // which three ranks do not divide
  RunConfig alone = config;
  alone.parallel.data = 1;
  const RunOutcome expected = run(alone);
  for (const RunOutcome& rank : run_ranks(config, 3)) {
    ASSERT_EQ(rank.result.validation.size(), expected.result.validation.size());
    for (std::size_t i = 0; i < rank.result.validation.size(); ++i) {
      const double loss = expected.result.validation[i].loss;
      EXPECT_NEAR(rank.result.validation[i].loss, loss, 1e-5 * loss);
    }
  }
}

TEST_F(RanksOfAnyStage, EndTogetherWhereOneIsAskedToStopAndGoOnToTheSameBits) {
  RunConfig config = this->config({.ranks = 3});
  config.train.steps = 8;
  config.checkpoint.path = (folder_.path() / "whole").string();
  const std::string whole = run_ranks(config, 3)[0].result.state_hash;
  config.checkpoint.path = (folder_.path() / "stopped").string();
  std::atomic<bool> stop = false;
  StopAfter listener(2, stop);
  const auto stopped = run_ranks(config, 3, [&](int rank) {
    return rank == 1 ? RunOptions{.stop = &stop, .listener = &listener} : RunOptions{};
  });
  for (const RunOutcome& rank : stopped) {
    EXPECT_TRUE(rank.result.interrupted);
    EXPECT_EQ(rank.result.counters.step, stopped[0].result.counters.step);
    EXPECT_LE(rank.result.counters.step, 5);
  }
  EXPECT_EQ(run_ranks(config, 3)[0].result.state_hash, whole);
}

TEST_F(RanksOfAnyStage, SaveBesideTrainingWhatAnyNumberOfRanksGoesOnFrom) {
  RunConfig config = this->config({.stage = 3, .ranks = 4});
  config.train.steps = 6;
  config.checkpoint.every = 3;
  config.checkpoint.keep = 9;
  config.checkpoint.path = (folder_.path() / "saved").string();
  const RunOutcome whole = run_ranks(config, 4)[0];
  std::filesystem::remove_all(folder_.path() / "saved/step-00000006");
  for (const int ranks : {4, 1, 2, 3}) {
    for (const int stage : {3, 1}) {
      RunConfig resumed = config;
      resumed.parallel.zero_stage = stage;
      resumed.checkpoint.path = (folder_.path() / fmt::format("on-{}-{}", ranks, stage)).string();
      std::filesystem::copy(config.checkpoint.path, resumed.checkpoint.path,
                            std::filesystem::copy_options::recursive);
      if (ranks > 1) resumed = placed(resumed, Where::host);
      resumed.parallel.data = ranks;
      const RunOutcome outcome = ranks == 1 ? run(resumed) : run_ranks(resumed, ranks)[0];
      ASSERT_EQ(outcome.result.steps.size(), 3U);
      for (std::size_t step = 0; step < 3; ++step) {
        const double loss = whole.result.steps[step + 3].loss;
        EXPECT_NEAR(outcome.result.steps[step].loss, loss, 1e-5 * loss);
      }
      if (ranks == 4) {
        EXPECT_EQ(outcome.result.state_hash, whole.result.state_hash);
      }
    }
  }
}

TEST_F(RanksOfAnyStage, EndTogetherWhereOneFails) {
  const RunConfig config = this->config({.ranks = 3});
  class Fails : public TrainListener {
   public:
    void on_step(const StepReport& report) override {
      if (report.step == 1) throw IoError("this rank has no more paper");
    }
  } fails;
  const auto options = [&](int rank) { return rank == 2 ? RunOptions{.listener = &fails} : RunOptions{}; };
  EXPECT_THAT([&] { run_ranks(config, 3, options); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("no more paper")));
}

TEST_F(RanksOfAnyStage, NameTheInstructionAndTheRankThatDoesNotCome) {
  class Dies : public CommFaults {
   public:
    Fate before(const CommAttempt& attempt) override {
      const bool dies = attempt.rank == 1 && attempt.operation == "reduce_scatter" && attempt.index > 10;
      return dies ? Fate::never_arrives : Fate::arrives;
    }
  } dies;
  const auto options = [](int) { return RunOptions{.watchdog_seconds = 0.5}; };
  EXPECT_THAT(
      [&] { run_ranks(config({.ranks = 3}), 3, options, {.watchdog_seconds = 0.5, .faults = &dies}); },
      ::testing::ThrowsMessage<CommError>(::testing::HasSubstr("rank 1")));
}

std::vector<DataLayout> data_layouts() {
  std::vector<DataLayout> result;
  for (const int ranks : {2, 3, 4}) {
    for (const int stage : {0, 1, 2, 3}) result.push_back({.stage = stage, .ranks = ranks});
  }
  result.push_back({.stage = 3, .ranks = 4, .replicate = 2});
  result.push_back({.stage = 1, .ranks = 4, .replicate = 2});
  return result;
}

INSTANTIATE_TEST_SUITE_P(Layouts, RanksRun, ::testing::ValuesIn(data_layouts()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace strata
