#include "engine/run/tune/layout_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/task_arena.h"
#include "engine/config/describe.h"
#include "engine/config/load.h"
#include "engine/config/run_config.h"
#include "engine/model/run_model.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRunFile =
    "{model: {architecture: llama, config: {vocab_size: 64, hidden_size: 32, intermediate_size: 64, "
    "num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2}}, "
    "data: {path: text, sequence_length: 32}, train: {batch: 8, precision: bf16}, "
    "plan: {search: auto}, memory: {host: 1GiB, device: 1MiB}}";

Architecture architecture_of(const RunConfig& config) {
  return architecture_of_run(model_config_of_run_file(config), config);
}

LayoutInput input_of(const std::vector<std::string>& settings, std::int64_t ranks) {
  const RunConfig open = parse_run_config(kRunFile, "run.yaml", settings);
  LayoutInput input = {.open = open, .ranks = ranks, .architecture = architecture_of(open)};
  input.rates = {.flops_per_second = 1e9,
                 .memory_bytes_per_second = 1e9,
                 .h2d_bytes_per_second = 1e8,
                 .d2h_bytes_per_second = 1e8,
                 .nvme_read_bytes_per_second = 1e8,
                 .nvme_write_bytes_per_second = 1e8,
                 .cores_copy = false};
  input.rates.links = {.node_ranks = 2, .inside_bytes_per_second = 1e8, .across_bytes_per_second = 1e7};
  return input;
}

std::set<std::string> all_settings(const LayoutInput& input) {
  std::set<std::string> settings;
  for (const RunLayout& layout : layouts_of(input.open, input.ranks, input.rates.links.node_ranks))
    for (const std::string& setting : settings_of(layout, input.open)) settings.insert(setting);
  return settings;
}

double planned_seconds(const LayoutInput& input, const RunLayout& layout) {
  const RunConfig config = with_layout(input.open, layout);
  const Model model = model_of_rank(input.architecture, config, 0);
  return plan_run({model_to_plan({"", &config, &model})}, false, input.rates).step.seconds;
}

TEST(RunLayouts, AreOfAsManyRanksAndTakeTheBatch) {
  for (const std::int64_t ranks : {1, 2, 4, 8, 12}) {
    const LayoutInput input = input_of({}, ranks);
    const std::vector<RunLayout> layouts = layouts_of(input.open, ranks, 4);
    EXPECT_FALSE(layouts.empty());
    for (const RunLayout& layout : layouts) {
      const RunConfig config = with_layout(input.open, layout);
      EXPECT_EQ(config.ranks(), ranks);
      EXPECT_EQ(config.microbatches() * config.train.microbatch * config.parallel.data, 8);
      EXPECT_EQ(config, parse_run_config(dump(config), "again"));
    }
  }
}

TEST(RunLayouts, KeepWhatTheRunFileGives) {
  const std::set<std::string> open = all_settings(input_of({}, 4));
  EXPECT_TRUE(open.contains("parallel.tensor=2"));
  EXPECT_TRUE(open.contains("parallel.pipeline=4"));
  EXPECT_TRUE(open.contains("train.microbatch=8"));
  const LayoutInput input = input_of({"parallel.tensor=2", "train.microbatch=2", "parallel.zero_stage=1"}, 4);
  for (const RunLayout& layout : layouts_of(input.open, 4, 0)) {
    EXPECT_EQ(layout.parallel.tensor, 2);
    EXPECT_EQ(layout.parallel.zero_stage, 1);
    EXPECT_EQ(layout.microbatch, 2);
  }
  EXPECT_FALSE(all_settings(input).contains("parallel.tensor=2")) << "it is not the search's";
  EXPECT_TRUE(layouts_of(input_of({"parallel.data=8"}, 4).open, 4, 0).empty());
}

TEST(RunLayouts, AreRememberedBySettings) {
  const LayoutInput input = input_of({}, 4);
  for (const RunLayout& layout : layouts_of(input.open, 4, 2)) {
    RunConfig config = with_settings(input.open, settings_of(layout, input.open));
    config.parallel.shard = layout.parallel.shard;
    EXPECT_EQ(config, with_layout(input.open, layout));
  }
}

/// How many layouts there are whose bounds hold.
std::size_t expect_bounds(const LayoutInput& input) {
  LayoutCosts costs(input.rates, input.architecture);
  std::size_t planned = 0;
  for (const RunLayout& layout : layouts_of(input.open, input.ranks, 2)) {
    const std::optional<LayoutCost> cost = costs.cost_of(with_layout(input.open, layout));
    if (!cost) continue;
    SCOPED_TRACE(describe(layout));
    EXPECT_LE(cost->bound(), planned_seconds(input, layout) * (1 + 1e-9));
    ++planned;
  }
  return planned;
}

TEST(LayoutCostsLongTest, BoundWhatEveryLayoutIsPlannedToTake) {
  EXPECT_GT(expect_bounds(input_of({}, 1)), 3U);
  EXPECT_GT(expect_bounds(input_of({}, 4)), 30U);
}

TEST(LayoutCostsLongTest, BoundRunsInWhichRanksSendLessThanAllGradients) {
  // The link decides.
  const auto slow = [](const std::vector<std::string>& settings) {
    LayoutInput input = input_of(settings, 2);
    input.rates.flops_per_second = 1e12;
    return input;
  };
  EXPECT_GT(expect_bounds(slow({"train.freeze=['model.embed_tokens.*', 'model.layers.0.*']"})), 5U);
  EXPECT_GT(expect_bounds(slow({"model.config.vocab_size=4096", "model.config.tie_word_embeddings=false",
                                "memory.device=8MiB"})),
            5U);
}

TEST(LayoutCostsLongTest, BoundPipelinesOfUnequalChunksWithAndWithoutANorm) {
  for (const char* clip : {"optimizer.clip_norm=1", "optimizer.clip_norm=0"}) {
    EXPECT_GT(expect_bounds(input_of({"parallel.pipeline=2", "train.microbatch=1", clip}, 2)), 2U);
    EXPECT_GT(expect_bounds(input_of({"parallel.pipeline=2", "parallel.schedule=interleaved",
                                      "parallel.chunks=3", "train.microbatch=1", clip},
                                     2)),
              0U);
  }
}

TEST(LayoutCosts, KnowOnWhichNodesRanksOfASequenceLie) {
  const LayoutInput input = input_of({"parallel.context=2", "parallel.tensor=1", "train.microbatch=1"}, 4);
  LayoutCosts costs(input.rates, input.architecture);
  double beside = 0, across = 0;
  for (const RunLayout& layout : layouts_of(input.open, 4, 2)) {
    const std::optional<LayoutCost> cost = costs.cost_of(with_layout(input.open, layout));
    const std::int64_t microbatches = 8 / layout.parallel.data;
    (layout.parallel.pipeline == 1 ? beside : across) = cost->rings / static_cast<double>(microbatches);
  }
  EXPECT_GT(across, 2 * beside) << "with two stages its ranks are not neighbours";
}

TEST(LayoutSearchLongTest, FindsTheShortestStepOfASmallSpace) {
  for (const std::int64_t ranks : {1, 2, 4}) {
    const LayoutInput input = input_of({}, ranks);
    double shortest = std::numeric_limits<double>::infinity();
    LayoutCosts costs(input.rates, input.architecture);
    for (const RunLayout& layout : layouts_of(input.open, ranks, 2)) {
      if (costs.cost_of(with_layout(input.open, layout)))
        shortest = std::min(shortest, planned_seconds(input, layout));
    }
    const LayoutSearch search = search_layouts(input);
    double found = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < search.planned; ++i)
      found = std::min(found, search.trials[i].planned->seconds);
    EXPECT_EQ(found, shortest);
    EXPECT_LE(search.best().planned->seconds, 1.01 * shortest) << "steps within 1 % count as alike";
    EXPECT_EQ(search.planned + search.refused + search.beaten + search.left_out, search.trials.size());
    EXPECT_EQ(search.left_out, 0U);
  }
}

TEST(LayoutSearchLongTest, FindsTheSameOnAnyNumberOfThreads) {
  const LayoutInput input = input_of({}, 4);
  const LayoutSearch alone = search_layouts(input);
  std::optional<LayoutSearch> together;
  TaskArena arena(3);
  arena.execute([&] { together = search_layouts(input); });
  ASSERT_EQ(alone.trials.size(), together->trials.size());
  for (std::size_t i = 0; i < alone.trials.size(); ++i)
    EXPECT_EQ(alone.trials[i].layout, together->trials[i].layout);
}

TEST(LayoutSearchLongTest, PlansALongStepByTwoShortOnes) {
  const LayoutInput input = input_of({"train.batch=2048", "train.microbatch=1", "parallel.pipeline=2"}, 2);
  const LayoutSearch search = search_layouts(input);
  const double whole = planned_seconds(input, search.best().layout);
  EXPECT_NEAR(search.best().planned->seconds, whole, 0.02 * whole);
}

TEST(LayoutSearchLongTest, SaysWhatIsWrongIfNoLayoutFits) {
  const auto error = [](const LayoutInput& input) {
    try {
      search_layouts(input);
    } catch (const ConfigError& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_THAT(error(input_of({"train.batch=7", "parallel.tensor=1", "parallel.pipeline=1"}, 4)),
              HasSubstr("no layout of 4 ranks"));
  EXPECT_THAT(error(input_of({"memory.device=4KiB"}, 1)), HasSubstr("none of the layouts tried"));
}

}  // namespace
}  // namespace strata
