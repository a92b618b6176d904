// Stages of a pipeline train as one rank does: under every schedule, whatever data-parallel ranks share out,
// wherever state lives.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "collectives/comm_faults.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/program/dependencies.h"
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

struct PipelineLayout {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int stages = 2, chunks = 1, data = 1, zero_stage = 3, replicate = 1;
  bool tied = true;
  double momentum = 0;  ///< of SGD; 0: AdamW
  int ranks() const { return stages * data; }
};

std::string name_of(const PipelineLayout& layout) {
  const std::string word(word_of(layout.schedule));
  return fmt::format("{}_{}_stages_{}_chunks_{}_data_{}_replicate_stage_{}{}{}",
                     word == "1f1b" ? "one_f_one_b" : word, layout.stages, layout.chunks, layout.data,
                     layout.replicate, layout.zero_stage, layout.tied ? "" : "_untied",
                     layout.momentum > 0 ? "_momentum" : "");
}

constexpr std::int64_t kPipelineSteps = 10;

class PipelineTest : public ::testing::Test {
 protected:
  RunConfig config(const PipelineLayout& layout) const {
    RunConfig config = test::tiny_run(folder_.path());
    config.model.config["num_hidden_layers"] = 5;
    config.model.config["tie_word_embeddings"] = layout.tied;
    config.train.batch = 8;
    config.train.microbatch = 1;
    config.train.steps = kPipelineSteps;
    config.train.precision = DType::fp32;
    if (layout.momentum > 0) {
      config.optimizer.type = OptimizerType::sgd;
      config.optimizer.momentum = layout.momentum;
    }
    config.train.threads = 1;
    config.parallel.data = layout.data;
    config.parallel.replicate = layout.replicate;
    config.parallel.zero_stage = layout.zero_stage;
    config.parallel.pipeline = layout.stages;
    config.parallel.chunks = layout.chunks;
    config.parallel.schedule = layout.schedule;
    return config;
  }
  RunConfig alone(const PipelineLayout& layout) const {
    return config({.stages = 1, .tied = layout.tied, .momentum = layout.momentum});
  }

  test::TemporaryFolder folder_;
};

class PipelineRun : public PipelineTest, public ::testing::WithParamInterface<PipelineLayout> {};

// Invariant of ranks (PipelineRun.*): Pipeline stages are one run. A pipeline under any schedule follows the
// run of one rank within 1e-5 in fp32. That holds for losses of 10 steps and for the gradient of each tensor.
// Schedules and placements change no bit.
TEST_P(PipelineRun, FollowsTheRunOfOneRankInLossesAndGradients) {
  const auto [expected, ranks] =
      test::expect_equal_runs(alone(GetParam()), config(GetParam()), GetParam().ranks());
  const double norm = expected.result.steps[0].grad_norm;
  for (const RunOutcome& rank : ranks)
    EXPECT_NEAR(rank.result.steps[0].grad_norm, norm, 1e-5 * norm) << "a tied weight counts once";
}

/// All schedules add up microbatches in one order.
// Invariant (PipelineTest.*): Pipeline stages are one run.
TEST_F(PipelineTest, HasTheSameBitsUnderEveryScheduleWhereverStateLives) {
  using enum PipelineSchedule;
  for (const int zero_stage : {0, 3}) {
    std::set<std::string> hashes;
    for (const PipelineLayout& layout : {PipelineLayout{.schedule = gpipe},
                                         {.schedule = one_f_one_b},
                                         {.schedule = interleaved},
                                         {.schedule = zero_bubble},
                                         {.schedule = breadth_first}}) {
      for (const bool on_host : {false, true}) {
        for (const Recompute recompute : {Recompute::full, Recompute::none}) {
          PipelineLayout with_data = layout;
          with_data.data = 2;
          with_data.zero_stage = zero_stage;
          RunConfig config = this->config(with_data);
          config.train.steps = 3;
          config.train.recompute = recompute;
          if (on_host) config.memory.device = test::smallest_bytes(config);
          for (const RunOutcome& rank : run_ranks(config, with_data.ranks())) {
            hashes.insert(rank.result.state_hash);
            expect_the_plan_was_exact(rank);
          }
        }
      }
    }
    EXPECT_EQ(hashes.size(), 1U) << zero_stage;
  }
}

TEST_F(PipelineTest, RunsOneInstructionAtATimeToTheSameBits) {
  const PipelineLayout layout = {.schedule = PipelineSchedule::interleaved, .stages = 2, .chunks = 2};
  RunConfig config = this->config(layout);
  config.train.steps = 2;
  const std::string hash = run_ranks(config, 2)[0].result.state_hash;
  config.plan.lanes = LaneMode::serial;
  EXPECT_EQ(run_ranks(config, 2)[0].result.state_hash, hash);
  config.memory.device = test::smallest_bytes(config);
  EXPECT_EQ(run_ranks(config, 2)[0].result.state_hash, hash);
}

TEST_F(PipelineTest, HasTheSameBitsWithItsStateOnADrive) {
  if (const std::string reason = test::why_no_drive(folder_.path()); !reason.empty()) GTEST_SKIP() << reason;
  const PipelineLayout layout = {.data = 2};
  RunConfig config = this->config(layout);
  config.train.steps = 3;
  const std::string hash = run_ranks(config, layout.ranks())[0].result.state_hash;
  config.memory.device = test::smallest_bytes(config);
  config.memory.nvme_path = {folder_.path().string()};
  config.memory.parameters = config.memory.optimizer_state = TierChoice::nvme;
  for (const RunOutcome& rank : run_ranks(config, layout.ranks())) {
    EXPECT_EQ(rank.result.state_hash, hash);
    expect_the_plan_was_exact(rank);
  }
}

TEST_F(PipelineTest, GoesOnFromWhatAnyLayoutHasSavedAndSavesForAny) {
  const PipelineLayout pipeline = {.schedule = PipelineSchedule::one_f_one_b, .data = 2};
  const std::vector<PipelineLayout> all = {
      {.stages = 1}, {.stages = 1, .data = 4, .zero_stage = 1}, {.stages = 4}, pipeline};
  const auto run_on = [](const RunConfig& config, const PipelineLayout& layout) {
    return layout.ranks() == 1 ? run(config) : run_ranks(config, layout.ranks())[0];
  };
  for (const bool while_training : {false, true}) {
    std::vector<StepReport> expected;
    for (const PipelineLayout& first : all) {
      RunConfig config = this->config(first);
      config.train.steps = 3;
      config.checkpoint.path =
          (folder_.path() / fmt::format("{}{}", name_of(first), while_training)).string();
      if (while_training) config.checkpoint.every = 1;
      run_on(config, first);
      for (const PipelineLayout& second : all) {
        if (!(first.stages > 1 || second.stages > 1)) continue;
        RunConfig resumed = this->config(second);
        resumed.train.steps = 5;
        resumed.checkpoint.path = config.checkpoint.path + "-" + name_of(second);
        std::filesystem::copy(config.checkpoint.path, resumed.checkpoint.path,
                              std::filesystem::copy_options::recursive);
        const RunOutcome outcome = run_on(resumed, second);
        ASSERT_EQ(outcome.result.steps.size(), 2U);
        if (expected.empty()) expected = outcome.result.steps;
        for (std::size_t step = 0; step < 2; ++step)
          EXPECT_NEAR(outcome.result.steps[step].loss, expected[step].loss, 1e-5 * expected[step].loss);
      }
    }
  }
}

TEST_F(PipelineTest, SavesEachStepWithoutClippingToo) {
  for (const PipelineSchedule schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::zero_bubble}) {
    RunConfig config = this->config({.schedule = schedule});
    config.optimizer.clip_norm = 0;
    config.train.steps = 4;
    const std::string expected = run_ranks(config, 2)[0].result.state_hash;
    config.checkpoint.path = (folder_.path() / std::to_string(static_cast<int>(schedule))).string();
    config.checkpoint.every = 1;
    config.train.steps = 3;
    run_ranks(config, 2);
    config.train.steps = 4;
    const TrainResult rest = run_ranks(config, 2)[0].result;
    EXPECT_EQ(rest.steps.size(), 1U);
    EXPECT_EQ(rest.state_hash, expected);
  }
}

TEST_F(PipelineTest, SkipsAStepThatOverflowsOnAllStages) {
  const PipelineLayout layout = {.data = 2};
  RunConfig config = this->config(layout), alone = this->alone(layout);
  for (RunConfig* run : {&config, &alone}) {
    run->train.precision = DType::fp16;
    run->train.steps = 14;
    run->train.loss_scale_initial = std::ldexp(1.0, 24);
  }
  const RunOutcome expected = run(alone);
  ASSERT_GT(expected.result.counters.skipped, 0);
  for (const RunOutcome& rank : run_ranks(config, layout.ranks())) {
    EXPECT_EQ(rank.result.counters.skipped, expected.result.counters.skipped);
    for (std::size_t step = 0; step < expected.result.steps.size(); ++step)
      EXPECT_NEAR(rank.result.steps[step].loss, expected.result.steps[step].loss,
                  1e-3 * expected.result.steps[step].loss);
  }
}

TEST_F(PipelineTest, EndsTogetherWhereAnyStageIsStopped) {
  const PipelineLayout layout = {.stages = 3};
  RunConfig config = this->config(layout);
  for (const int stopped : {0, 1, 2}) {
    std::atomic<bool> stop = false;
    test::StopAfter listener(2, stop);
    std::int64_t steps = -1;
    for (const RunOutcome& rank : run_ranks(config, 3, [&](int rank) {
           return rank == stopped ? RunOptions{.stop = &stop, .listener = &listener} : RunOptions{};
         })) {
      EXPECT_TRUE(rank.result.interrupted);
      if (steps < 0) steps = rank.result.counters.step;
      EXPECT_EQ(rank.result.counters.step, steps);
    }
  }
}

/// Rank 0 is late wherever numbers of all ranks are added up, and so learns late of a stop.
class LateSums : public CommFaults {
 public:
  Fate before(const CommAttempt& attempt) override {
    if (attempt.rank == 0 && attempt.operation == "all_reduce")
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return Fate::arrives;
  }
};

/// No two buffers of the host share bytes, by which lanes would wait for one another.
void spread_host(Plan& plan) {
  PlannedProgram& planned = plan.models.front()->training;
  Bytes end = 0;
  for (Buffer& buffer : planned.program.buffers) {
    if (buffer.tier == Tier::host) buffer.offset = std::exchange(end, end + buffer.bytes);
  }
  planned.use[Tier::host].peak_bytes = end;
  planned.dependencies = find_dependencies(planned.program);
}

/// No pass of a stage that trains nothing waits for what the lane cpu does.
TEST_F(PipelineTest, EndsTogetherWhereAFrozenStageIsAhead) {
  const PipelineLayout layout = {.tied = false};
  RunConfig config = this->config(layout);
  config.train.batch = 2;
  config.parallel.stages = {"embedding", "block.2"};
  config.train.freeze = {"model.embed_tokens.*", "model.layers.0.*", "model.layers.1.*"};
  for (const int stopped : {0, 1}) {
    std::atomic<bool> stop = false;
    test::StopAfter listener(2, stop);
    LateSums late;
    const std::vector<RunOutcome> ranks = run_ranks(config, layout.ranks(),
                                                    [&](int rank) {
                                                      RunOptions options = {.change_plan = spread_host};
                                                      if (rank == stopped)
                                                        options.stop = &stop, options.listener = &listener;
                                                      return options;
                                                    },
                                                    {.watchdog_seconds = 20, .faults = &late});
    for (const RunOutcome& rank : ranks) {
      EXPECT_TRUE(rank.result.interrupted);
      EXPECT_EQ(rank.result.counters.step, ranks[0].result.counters.step);
    }
  }
}

TEST_F(PipelineTest, ValidatesAndFreezesAsOneRankDoes) {
  const PipelineLayout layout = {
      .schedule = PipelineSchedule::breadth_first, .stages = 2, .chunks = 2, .data = 2};
  for (const std::vector<std::string>& freeze :
       {std::vector<std::string>{}, {"model.layers.0.*", "model.layers.1.*"}, {"model.embed_tokens.*"}}) {
    RunConfig config = this->config(layout), alone = this->alone(layout);
    for (RunConfig* run : {&config, &alone}) {
      run->train.steps = 4;
      run->train.freeze = freeze;
      run->train.validate_every = 2;
      run->train.validation_batches = 3;
      run->data.validation_fraction = 0.1;
    }
    const RunOutcome expected = run(alone);
    for (const RunOutcome& rank : run_ranks(config, layout.ranks())) {
      ASSERT_EQ(rank.result.validation.size(), expected.result.validation.size());
      for (std::size_t i = 0; i < expected.result.validation.size(); ++i)
        EXPECT_NEAR(rank.result.validation[i].loss, expected.result.validation[i].loss,
                    1e-5 * expected.result.validation[i].loss);
    }
  }
}

/// The last stage has begun to wait for its first input before it gathers, and gathers before that is sent.
class LatePeer : public CommFaults {
 public:
  /// From here on what ranks call is of a step, but for threads that have called before: those agree.
  void begin_steps() { steps_have_begun_ = true; }
  bool has_waited_in_vain() const { return in_vain_; }

  Fate before(const CommAttempt& attempt) override {
    const bool is_last_stage = attempt.rank % 2 == 1;
    if (is_last_stage && attempt.operation == "receive") note(receives_);
    if (is_of_step() && is_last_stage && attempt.operation == "all_gather") {
      wait_for(receives_);
      note(gathers_);
    }
    if (!is_last_stage && attempt.operation == "send") wait_for(gathers_);
    return Fate::arrives;
  }

 private:
  bool is_of_step() {
    const std::lock_guard lock(mutex_);
    if (!steps_have_begun_) agreeing_.insert(std::this_thread::get_id());
    return !agreeing_.contains(std::this_thread::get_id());
  }
  void note(bool& event) {
    const std::lock_guard lock(mutex_);
    event = true;
    happened_.notify_all();
  }
  void wait_for(const bool& event) {
    std::unique_lock lock(mutex_);
    if (!happened_.wait_for(lock, std::chrono::seconds(20), [&] { return event; })) in_vain_ = true;
  }

  std::mutex mutex_;
  std::condition_variable happened_;
  bool receives_ = false, gathers_ = false;
  std::set<std::thread::id> agreeing_;
  std::atomic<bool> steps_have_begun_ = false, in_vain_ = false;
};

TEST_F(PipelineTest, GathersWhileAReceiveWaits) {
  const PipelineLayout layout = {.data = 2};
  RunConfig config = this->config(layout);
  config.train.steps = 1;
  LatePeer late;
  class Begins : public TrainListener {
   public:
    explicit Begins(LatePeer& peer) : peer_(peer) {}
    void on_start(const std::string& /*from*/) override { peer_.begin_steps(); }

   private:
    LatePeer& peer_;
  } begins(late);
  run_ranks(config, layout.ranks(),
            [&](int rank) { return rank == 1 ? RunOptions{.listener = &begins} : RunOptions{}; },
            {.faults = &late});
  EXPECT_FALSE(late.has_waited_in_vain());
}

/// Its layers' tally of a microbatch goes through all stages and comes back with the gradient.
TEST_F(PipelineTest, BalancesExpertsOfAllStagesTogether) {
  const auto mixture = [](RunConfig config) {
    config.model.architecture = "mixtral";
    config.model.config = {{"num_hidden_layers", 5},     {"hidden_size", 16},
                           {"num_attention_heads", 4},   {"num_key_value_heads", 2},
                           {"intermediate_size", 20},    {"num_local_experts", 4},
                           {"vocab_size", 128},          {"output_router_logits", true},
                           {"router_aux_loss_coef", 0.5}};
    config.train.steps = 5;
    return config;
  };
  for (const PipelineLayout& layout :
       {PipelineLayout{.stages = 3},
        PipelineLayout{.schedule = PipelineSchedule::breadth_first, .chunks = 2}}) {
    const RunConfig config = mixture(this->config(layout)), alone = mixture(this->alone(layout));
    const RunOutcome expected = run(alone);
    for (const RunOutcome& rank : run_ranks(config, layout.ranks())) {
      for (std::size_t step = 0; step < expected.result.steps.size(); ++step)
        EXPECT_NEAR(rank.result.steps[step].loss, expected.result.steps[step].loss,
                    1e-5 * expected.result.steps[step].loss);
      expect_the_plan_was_exact(rank);
    }
    test::expect_equal_gradients(test::model_of(config), alone, config, layout.ranks());
  }
}

std::vector<PipelineLayout> pipeline_layouts() {
  using enum PipelineSchedule;
  return {{.schedule = one_f_one_b},
          {.schedule = one_f_one_b, .tied = false},
          {.schedule = one_f_one_b, .momentum = 0.9},
          {.schedule = gpipe, .stages = 3},
          {.schedule = interleaved, .stages = 2, .chunks = 2},
          {.schedule = breadth_first, .stages = 2, .chunks = 3},
          {.schedule = one_f_one_b, .stages = 4},
          {.schedule = zero_bubble, .stages = 3},
          {.schedule = zero_bubble, .data = 2, .zero_stage = 3, .tied = false},
          {.schedule = one_f_one_b, .data = 2, .zero_stage = 0},
          {.schedule = gpipe, .data = 2, .zero_stage = 1},
          {.schedule = one_f_one_b, .data = 2, .zero_stage = 2},
          {.schedule = interleaved, .chunks = 2, .data = 2, .zero_stage = 3},
          {.schedule = breadth_first, .chunks = 2, .data = 4, .zero_stage = 3, .replicate = 2}};
}
INSTANTIATE_TEST_SUITE_P(Layouts, PipelineRun, ::testing::ValuesIn(pipeline_layouts()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace strata
