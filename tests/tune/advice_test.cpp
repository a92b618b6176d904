#include "engine/run/tune/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "base/error.h"
#include "base/task_arena.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/place/search.h"
#include "engine/plan/place/step_cost.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::tiny_config;
using test::tiny_model;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// A run file's config on a device that computes slowly and has a slow link, so that what moves costs time.
RunConfig slow_config(Bytes device) {
  RunConfig config = tiny_config();
  config.model.architecture = "llama";
  config.model.config = {{"vocab_size", 40}};
  config.data.path = {"text"};
  config.train.recompute = Recompute::automatic;
  config.plan.order.reset();
  config.train.batch = 8;
  config.device.flops_per_second = 1e9;
  config.device.h2d_per_second = config.device.d2h_per_second = 2'000'000;
  config.memory.device = device;
  config.memory.host = GiB;
  return config;
}

AdviceInput input_of(const std::vector<RunConfig>& configs, const Model& model) {
  AdviceInput input;
  for (const RunConfig& config : configs) {
    input.configs.push_back(config);
    input.models.push_back(&model);
    input.names.push_back("model-" + std::to_string(input.names.size()));
  }
  input.is_several = configs.size() > 1;
  return input;
}

Bytes resident_bytes(const Model& model) {
  return make_plan(slow_config(kUnlimited), model).arena_bytes(Tier::device);
}

/// What each change gives, planned apart from advice.
void expect_truth(const AdviceInput& input, const std::vector<Prediction>& changes) {
  for (const Prediction& one : changes) {
    SCOPED_TRACE(one.change.kind());
    const std::vector<RunConfig> configs = with_change(input, one.change);
    const PlannedRun run = plan_run(to_plan(input, configs), input.is_several,
                                    one.change.rates(planning_rates(configs.front())));
    EXPECT_EQ(one.step.seconds, run.step.seconds);
    EXPECT_EQ(one.tokens, run.tokens);
    EXPECT_EQ(one.peaks, run.peaks());
  }
}

std::vector<std::string> kinds_of(const Advice& advice) {
  std::vector<std::string> kinds;
  for (const Prediction& one : advice.changes) kinds.push_back(one.change.kind());
  return kinds;
}

bool sets(const Prediction& prediction, const std::string& key) {
  return prediction.change.kind().find(key) != std::string::npos;
}

// Invariant of planning (AdviceLongTest.*): A predicted change is a plan. The effect that Strata tells of a
// change is the step of the plan of the changed run, on several ranks and of several models too. A change
// that is said to make a run fit does so.
TEST(AdviceLongTest, PredictsWhatThePlanOfTheChangedRunTakes) {
  const Model model = tiny_model(4);
  const AdviceInput input = input_of({slow_config(resident_bytes(model) / 3)}, model);
  const Advice advice = advise(input);
  ASSERT_TRUE(advice.run);
  ASSERT_FALSE(advice.changes.empty());
  expect_truth(input, advice.changes);
}

TEST(AdviceLongTest, TakesStepsFromTheTimelineOfThePlan) {
  const Model model = tiny_model(4);
  const RunConfig config = slow_config(resident_bytes(model) / 3);
  const Advice advice = advise(input_of({config}, model));
  const MachineRates rates = planning_rates(config);
  const ModelPlan plan = make_plan(config, model, rates);
  EXPECT_EQ(advice.now.step.timeline,
            simulated_seconds(plan.training.program, plan.training.dependencies, rates));
  EXPECT_EQ(advice.now.step.work, placed_cost(plan.training.program, rates).seconds);
  EXPECT_GE(advice.now.step.seconds, advice.now.step.needs.longest());
  EXPECT_EQ(advice.now.tokens, config.train.batch * config.data.sequence_length);
}

TEST(AdviceLongTest, SaysInWordsWhatIsPlannedAndCountsChangesThatAreAllThereAre) {
  const Model model = tiny_model(4);
  AdviceInput input = input_of({slow_config(resident_bytes(model) / 3)}, model);
  std::mutex mutex;
  std::vector<std::string> lines;
  input.on_planning = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  };
  const Advice advice = advise(input);
  EXPECT_THAT(
      lines, Contains("planning the run with enough memory: memory.device unlimited, memory.host unlimited"));
  const std::string total = " of " + std::to_string(advice.planned) + ": ";
  for (const std::string& line : lines) {
    EXPECT_THAT(line, Not(HasSubstr("=")));
    if (!line.starts_with("planning change ")) continue;
    EXPECT_THAT(line, HasSubstr(total));
  }
}

TEST(AdviceLongTest, ShowsTheChangesThatSaveMostTimePerTokenFirst) {
  const Model model = tiny_model(4);
  const Advice advice = advise(input_of({slow_config(resident_bytes(model) / 3)}, model));
  EXPECT_LE(advice.changes.size(), kMostAdvised);
  EXPECT_GT(advice.planned, advice.changes.size());
  std::set<std::string> kinds;
  double before = 0;
  for (const Prediction& one : advice.changes) {
    EXPECT_TRUE(kinds.insert(one.change.kind()).second) << one.change.kind();
    EXPECT_LT(one.seconds_per_token(), (1 - kLeastGain) * advice.now.seconds_per_token());
    EXPECT_GE(one.seconds_per_token(), before - kLeastGain * advice.now.seconds_per_token());
    before = one.seconds_per_token();
  }
  EXPECT_THAT(kinds_of(advice), Contains("memory.device"));
}

TEST(AdviceLongTest, ShowsNoMoreMemoryWhereAllOfTheRunIsOnTheDevice) {
  const Model model = tiny_model(4);
  for (const Bytes device : {kUnlimited, 2 * resident_bytes(model)}) {
    const Advice advice = advise(input_of({slow_config(device)}, model));
    for (const Prediction& one : advice.changes) EXPECT_FALSE(sets(one, "memory.")) << one.change.kind();
  }
}

TEST(AdviceLongTest, ShowsNothingWhereNothingHelps) {
  const Model model = tiny_model(4);
  RunConfig config = slow_config(kUnlimited);
  config.device.flops_per_second = 1e6;  // so slow that nothing else takes time
  config.train.microbatch = 8;
  config.train.precision = DType::bf16;
  const Advice advice = advise(input_of({config}, model));
  EXPECT_TRUE(advice.changes.empty());
  EXPECT_GT(advice.planned, 0U);
  EXPECT_EQ(advice.now.step.needs.binding(), "compute");
  EXPECT_LT(advice.now.step.seconds, 1.05 * advice.now.step.needs.longest());
}

TEST(AdviceLongTest, GivesThePlannerBackWhatTheRunFileDecidesBadly) {
  const Model model = tiny_model(4);
  RunConfig config = slow_config(resident_bytes(model));
  config.memory.optimizer_state = TierChoice::host;
  config.train.recompute = Recompute::full;
  const AdviceInput input = input_of({config}, model);
  const Advice advice = advise(input);
  EXPECT_THAT(kinds_of(advice), Contains(AnyOf("train.recompute", "memory.placement.optimizer_state")));
  expect_truth(input, advice.changes);
}

TEST(AdviceLongTest, FindsWhatMakesARunFitWhoseDeviceIsTooSmall) {
  const Model model = tiny_model(4);
  RunConfig config = slow_config(kUnlimited);
  config.train.microbatch = 8;
  config.data.sequence_length = 64;
  config.optimizer.master = MasterFormat::split;
  const Bytes smallest = smallest_device_bytes(config, model);
  config.memory.device = smallest * 4 / 5;
  const AdviceInput input = input_of({config}, model);
  const Advice advice = advise(input);
  ASSERT_FALSE(advice.run);
  EXPECT_EQ(advice.refusal, test::refusal(config, model));
  ASSERT_FALSE(advice.changes.empty());
  expect_truth(input, advice.changes);
  for (const Prediction& one : advice.changes)
    EXPECT_EQ(test::refusal(with_change(input, one.change).front(), model), "") << one.change.kind();
  EXPECT_THAT(kinds_of(advice), Contains("train.microbatch"));
  for (const Prediction& one : advice.changes) {
    if (sets(one, "memory.device")) {
      EXPECT_EQ(one.budgets[Tier::device], smallest);
    }
  }
}

TEST(AdviceLongTest, FindsWhatMakesARunFitWhoseHostIsTooSmall) {
  const Model model = tiny_model(4);
  RunConfig config = slow_config(resident_bytes(model) / 3);
  config.memory.host = 64 * KiB;
  const AdviceInput input = input_of({config}, model);
  const Advice advice = advise(input);
  ASSERT_FALSE(advice.run);
  EXPECT_EQ(advice.refusal, test::refusal(config, model));
  EXPECT_TRUE(
      std::ranges::any_of(advice.changes, [](const Prediction& one) { return sets(one, "memory.host"); }));
  expect_truth(input, advice.changes);
}

TEST(AdviceLongTest, CountsMemoryThatTheMachineLacksAsAnotherMachine) {
  const Model model = tiny_model(4);
  AdviceInput input = input_of({slow_config(resident_bytes(model) / 3)}, model);
  input.machine_memory = GiB + resident_bytes(model) / 3;
  std::size_t found = 0;
  for (const Prediction& one : advise(input).changes) {
    if (!sets(one, "memory.device")) continue;
    EXPECT_EQ(one.change.effect, ChangeEffect::machine);
    ++found;
  }
  EXPECT_EQ(found, 1U);
}

TEST(AdviceLongTest, TakesBf16ToBeNoFasterWhereNoInstructionsComputeIt) {
  const Model model = tiny_model(3);
  RunConfig config = slow_config(kUnlimited);
  config.device = {};  // nominal rates, by which bf16 is twice as fast
  config.train.precision = DType::fp32;
  config.data.sequence_length = 512;
  AdviceInput input = input_of({config}, model);
  EXPECT_THAT(kinds_of(advise(input)), Contains("train.precision"));
  const auto computing = [&] {
    for (const Prediction& one : advise(input).changes)
      if (sets(one, "train.precision")) return one.step.needs.compute;
    return advise(input).now.step.needs.compute;
  };
  const double with_instructions = computing();
  input.has_bf16 = false;
  EXPECT_DOUBLE_EQ(computing(), 2 * with_instructions);
}

TEST(AdviceLongTest, PlansRanksTogether) {
  const Model model = tiny_model(4);
  RunConfig config = slow_config(resident_bytes(model) / 3);
  config.parallel.data = 2;
  config.parallel.pipeline = 2;
  const AdviceInput input = input_of({config}, model);
  const Advice advice = advise(input);
  ASSERT_TRUE(advice.run);
  EXPECT_EQ(advice.run->ranks.size(), 2U);
  EXPECT_FALSE(advice.changes.empty());
  expect_truth(input, advice.changes);
}

TEST(AdviceLongTest, PlansSeveralModelsTogether) {
  const Model model = tiny_model(4);
  RunConfig one = slow_config(resident_bytes(model) / 3), other = one;
  other.optimizer.learning_rate = 1e-2;
  const AdviceInput input = input_of({one, other}, model);
  const Advice advice = advise(input);
  ASSERT_TRUE(advice.run);
  EXPECT_EQ(advice.now.tokens, 2 * one.train.batch * one.data.sequence_length);
  EXPECT_FALSE(advice.changes.empty());
  expect_truth(input, advice.changes);
}

TEST(AdviceLongTest, DoesNotDependOnThreads) {
  const Model model = tiny_model(4);
  const AdviceInput input = input_of({slow_config(resident_bytes(model) / 3)}, model);
  std::vector<std::vector<std::pair<std::string, double>>> results;
  for (const int threads : {1, 3}) {
    TaskArena arena(threads);
    arena.execute([&] {
      std::vector<std::pair<std::string, double>>& result = results.emplace_back();
      for (const Prediction& one : advise(input).changes)
        result.emplace_back(one.change.kind(), one.step.seconds);
    });
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(AdviceLongTest, SetsOpenBudgetsOfEachChangedRun) {
  const Model model = tiny_model(4);
  RunConfig config = slow_config(resident_bytes(model) / 3);
  config.memory.host = kUnlimited;
  AdviceInput input = input_of({config}, model);
  input.set_budgets = [](std::vector<RunConfig>& configs) {
    for (RunConfig& one : configs) {
      if (one.memory.host == kUnlimited) one.memory.host = GiB - one.memory.device;
    }
  };
  const Advice advice = advise(input);
  EXPECT_EQ(advice.now.budgets[Tier::host], GiB - config.memory.device);
  for (const Prediction& one : advice.changes) {
    if (sets(one, "memory.device")) {
      EXPECT_EQ(one.budgets[Tier::host], GiB - one.budgets[Tier::device]);
    }
  }
}

}  // namespace
}  // namespace strata
