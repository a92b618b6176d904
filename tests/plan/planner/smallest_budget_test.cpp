// Budgets that are too small are refused with the smallest that work. They are tested by taking them at their
// word, over a grid of runs: with what the sentence names a run is planned, with a page less of any of it it
// is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/config/keys.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::refusal;
using test::tiny_config;
using test::tiny_model;
using test::with_named_budgets;
using ::testing::HasSubstr;

/// One run of the grid, and how it was made, for messages.
struct GridRun {
  RunConfig config;
  Model model;
  std::string name;
};

/// Picks each option at random, the same ones in every test run.
class Grid {
 public:
  explicit Grid(std::uint32_t seed) : random_(seed) {}

  GridRun pick() {
    GridRun run;
    run.config = tiny_config({.microbatches = one_of({1, 2, 5})});
    RunConfig& config = run.config;
    config.plan.order =
        one_of<std::optional<Order>>({std::nullopt, Order::layer_major, Order::microbatch_major});
    config.train.recompute = one_of({Recompute::none, Recompute::full, Recompute::automatic});
    config.train.precision = one_of({DType::bf16, DType::fp32, DType::fp16});
    config.train.validation_batches = one_of({1, 7, 64});
    config.train.validate_every = one_of({0, 1, 1});
    config.optimizer.clip_norm = one_of({0, 1});
    if (config.train.precision == DType::bf16)
      config.optimizer.master = one_of({MasterFormat::fp32, MasterFormat::split, MasterFormat::none});
    config.optimizer.moments = one_of({MomentFormat::fp32, MomentFormat::bf16, MomentFormat::coded});
    if (one_of({true, false})) config.checkpoint = {"out", 2, 2};
    pick_ranks(config);
    pick_tiers(config);
    run.model = tiny_model(one_of({1, 3, 4}), one_of({true, false}), one_of({40, 300}));
    for (const Key& key : config_keys()) {
      if (key.get(config) != key.get(RunConfig()))
        run.name += fmt::format(" {}={}", key.path, key.get(config));
    }
    run.name +=
        fmt::format(" layers={} tied={}", run.model.architecture.layers, run.model.architecture.tied_head);
    return run;
  }

  Bytes between(Bytes low, Bytes high) {
    return std::uniform_int_distribution<Bytes>(low, std::max(low, high))(random_);
  }

  template <typename T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + static_cast<std::ptrdiff_t>(random_() % list.size()));
  }

 private:
  void pick_ranks(RunConfig& config) {
    config.parallel.data = one_of({1, 1, 2, 4});
    config.parallel.replicate = config.parallel.data == 4 ? one_of({1, 2, 4}) : 1;
    config.parallel.zero_stage = one_of({0, 1, 2, 3});
    config.parallel.sparse_gradients = one_of({true, false});
    if (config.train.precision == DType::bf16)
      config.parallel.reduce_dtype = one_of({ReduceDtype::fp32, ReduceDtype::bf16});
    config.train.batch *= config.parallel.data;
  }

  void pick_tiers(RunConfig& config) {
    MemorySection& memory = config.memory;
    const bool has_host = one_of({true, true, false}), has_drives = has_host && one_of({true, false});
    if (!has_host) memory.host.reset();
    if (has_drives) memory.nvme_path = {"/drive"};
    const auto choice = [&] {
      const TierChoice tier = one_of({TierChoice::automatic, TierChoice::automatic, TierChoice::device,
                                      TierChoice::host, TierChoice::nvme});
      const bool exists = tier == TierChoice::nvme ? has_drives : tier != TierChoice::host || has_host;
      return exists ? tier : TierChoice::automatic;
    };
    memory.optimizer_state = choice();
    memory.gradients = choice();
    memory.activations = choice();
    memory.parameters = choice();
    const bool away = memory.parameters == TierChoice::host || memory.parameters == TierChoice::nvme;
    if (away && memory.optimizer_state == TierChoice::device) memory.parameters = TierChoice::automatic;
  }

  std::mt19937 random_;
};

/// Takes the refusal at its word.
void expect_true(const GridRun& run, const RunConfig& refused) {
  const std::string sentence = refusal(refused, run.model);
  SCOPED_TRACE(fmt::format("{}\n  refused with device {}, host {}, nvme {}: {}", run.name,
                           refused.memory.device, refused.memory.host.value_or(-1), refused.memory.nvme_size,
                           sentence));
  const RunConfig enough = with_named_budgets(refused, sentence);
  ASSERT_NE(enough.memory, refused.memory);
  EXPECT_EQ(refusal(enough, run.model), "");
  const auto expect_refused = [&](const RunConfig& less) {
    EXPECT_NE(refusal(less, run.model), "") << "with less";
  };
  RunConfig less = enough;
  if (enough.memory.device != refused.memory.device) {
    less.memory.device -= kBufferAlignment;
    expect_refused(less);
  }
  if (enough.memory.host != refused.memory.host) {
    less = enough;
    *less.memory.host -= kBufferAlignment;
    expect_refused(less);
  }
  if (enough.memory.nvme_size != refused.memory.nvme_size) {
    less = enough;
    less.memory.nvme_size -= kBufferAlignment;
    expect_refused(less);
  }
}

// Invariant of planning (SmallestBudget*.*): A refusal names a budget that works. If a budget is too small,
// the refusal names the smallest budget that works.
TEST(SmallestBudgetLongTest, IsOneThatWorksAndTheSmallestOverAGridOfRuns) {
  Grid grid(14);
  for (int i = 0; i < 60 && !::testing::Test::HasFailure(); ++i) {
    const GridRun run = grid.pick();
    const auto refuse_with = [&](const RunConfig& config) {
      if (refusal(config, run.model).empty()) return;  // it is enough
      expect_true(run, config);
    };
    RunConfig config = run.config;
    config.memory.device = 1;
    ASSERT_NE(refusal(config, run.model), "");
    refuse_with(config);
    const RunConfig smallest = with_named_budgets(config, refusal(config, run.model));
    const ModelPlan roomy = make_plan(run.config, run.model);
    if (config.memory.host) {
      config.memory.host = 1;  // both
      refuse_with(config);
      config.memory.device = grid.between(smallest.memory.device, roomy.arena_bytes(Tier::device));
      refuse_with(config);
      config.memory.host = kUnlimited;
      const Bytes host = make_plan(config, run.model).arena_bytes(Tier::host);
      config.memory.host = grid.between(1, host);
      refuse_with(config);
      config.memory.device = 1;
      refuse_with(config);
    }
    if (config.memory.nvme_path.empty()) continue;
    config.memory.device = smallest.memory.device;
    config.memory.nvme_size = 1;
    refuse_with(config);
    config.memory.nvme_size = grid.between(1, 200 * KiB);
    refuse_with(config);
    config.memory.device = config.memory.nvme_size = *(config.memory.host = 1);  // all three
    refuse_with(config);
  }
}

TEST(SmallestBudget, LetsValidationPassInAnotherOrderThanTraining) {
  // In training's order the activations of 64 microbatches would all be on the device at once.
  const Model model = tiny_model();
  RunConfig config = tiny_config({.order = Order::layer_major});
  config.memory.activations = TierChoice::device;
  config.train.validate_every = 1;
  config.train.validation_batches = 64;
  config.memory.device = 1;
  config = with_named_budgets(config, refusal(config, model));
  const ModelPlan plan = make_plan(config, model);
  EXPECT_EQ(plan.strategy.order, Order::layer_major);
  EXPECT_LE(plan.arena_bytes(Tier::device), config.memory.device);
}

TEST(SmallestBudget, OfARunWithoutAHostTierIsNamedWithOneToo) {
  const Model model = tiny_model();
  RunConfig config = tiny_config();
  config.memory.host.reset();
  config.memory.device = 1;
  const std::string tiny = refusal(config, model);
  config = with_named_budgets(config, tiny);
  EXPECT_EQ(refusal(config, model), "");
  config.memory.device -= kBufferAlignment;
  const std::string sentence = refusal(config, model);
  const auto number = [&](const std::string& after) {
    const auto start = sentence.find('(', sentence.find(after));
    return std::stoll(sentence.substr(start + 1));
  };
  config.memory.host = number("or add memory.host");
  EXPECT_EQ(refusal(config, model), "");
  *config.memory.host -= kBufferAlignment;
  EXPECT_THAT(refusal(config, model), HasSubstr("memory.host: "));

  // "; with memory.host: 3.00 KiB (3072 bytes) it would be 2.00 KiB (2048 bytes)"
  const std::string other_way = tiny.substr(tiny.find("memory.host"));
  config = with_named_budgets(config, other_way);
  config = with_named_budgets(config, "memory.device " + other_way.substr(other_way.find("it would be")));
  EXPECT_EQ(refusal(config, model), "");
  config.memory.device -= kBufferAlignment;
  EXPECT_NE(refusal(config, model), "");
}

}  // namespace
}  // namespace strata
