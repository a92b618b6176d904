// Plans of several models with stages: ranks meet in whatever is planned, and models fill one another's
// bubbles.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/merge/joint.h"
#include "engine/plan/program/rank_tasks.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::tiny_config;
using test::tiny_model;
using enum PipelineSchedule;

/// Computing is all that takes time.
const MachineRates kQuickLinks = {.flops_per_second = 1e6,
                                  .memory_bytes_per_second = 1e15,
                                  .h2d_bytes_per_second = 1e15,
                                  .d2h_bytes_per_second = 1e15,
                                  .nvme_read_bytes_per_second = 1e15,
                                  .nvme_write_bytes_per_second = 1e15,
                                  .cores_copy = false};

class Pipelines {
 public:
  RunConfig& add(PipelineSchedule schedule, std::int64_t microbatches, const Model& model = tiny_model(4)) {
    const std::string name = "m" + std::to_string(members_.size());
    members_.push_back(std::make_unique<Member>(
        Member{name, tiny_config({.microbatches = microbatches, .save = true}), model}));
    RunConfig& config = members_.back()->config;
    config.plan.order.reset();
    config.parallel.pipeline = 2;
    config.parallel.schedule = schedule;
    return config;
  }
  void set_device(Bytes device) {
    for (const auto& member : members_) member->config.memory.device = device;
  }

  JointPlanner planner() const {
    std::vector<ConfiguredModel> models;
    for (const auto& member : members_) models.push_back({member->name, &member->config, &member->model});
    return {models_to_plan(models), kQuickLinks};
  }
  std::vector<Plan> plans(const std::string& order = {}) const {
    return planner().plan(std::vector<std::int64_t>(members_.size(), 3), order);
  }

 private:
  struct Member {
    std::string name;
    RunConfig config;
    Model model;
  };
  std::vector<std::unique_ptr<Member>> members_;
};

/// The share of a round in which the busiest stage set does not compute.
double idle_share(const std::vector<Plan>& plans) {
  double computing = 0;
  for (const Plan& plan : plans) computing = std::max(computing, plan.merged->computing_seconds);
  return 1 - computing / plans.front().merged->round_seconds;
}

// Invariant (JointPipelines*.*): Several pipelines are their runs alone.
TEST(JointPipelinesLongTest, FillOneAnothersBubbles) {
  for (const PipelineSchedule schedule : {gpipe, one_f_one_b, zero_bubble}) {
    SCOPED_TRACE(static_cast<int>(schedule));
    Pipelines alone, four;
    alone.add(schedule, 8);
    for (int m = 0; m < 4; ++m) four.add(schedule, 8);
    const double idle = idle_share(four.plans()), bubble = idle_share(alone.plans());
    const double formula = schedule == zero_bubble ? 1.0 / 25 : 1.0 / 9;  // docs/explanation/pipelines.md
    EXPECT_NEAR(bubble, formula, 0.3 * formula);                          // stages are not of equal size
    EXPECT_LE(idle, 0.05);
    EXPECT_LE(idle, 0.6 * bubble);
    EXPECT_LE(idle, 0.6 * idle_share(four.plans("step after step")));
  }
}

/// verify_ranks() on what is planned for all stage sets, training and validation.
void expect_that_ranks_meet(const std::vector<Plan>& plans, const std::vector<std::int64_t>& ranks) {
  ASSERT_EQ(plans.size(), ranks.size());
  std::vector<RankProgram> training, validation;
  for (std::size_t stage_set = 0; stage_set < plans.size(); ++stage_set) {
    const Plan& plan = plans[stage_set];
    training.push_back({ranks[stage_set], &plan.training().program, &plan.training().dependencies});
    for (const auto& [interlude, program] : plan.interludes())
      validation.push_back({ranks[stage_set], &program.program, &program.dependencies});
    EXPECT_EQ(plan.channels, plans.front().channels);
  }
  verify_ranks(training);
  verify_ranks(validation);
}

/// Makes models of several schedules, which save and validate.
Pipelines mixed_pipelines() {
  Pipelines models;
  models.add(one_f_one_b, 4);
  models.add(zero_bubble, 3, tiny_model(3, false));
  models.add(gpipe, 2).optimizer.clip_norm = 0;
  RunConfig& config = models.add(interleaved, 4);
  config.parallel.chunks = 2;
  config.train.validate_every = 2;
  config.train.validation_batches = 3;
  config.data.validation = {"validation.txt"};
  config.checkpoint = {"out", 2, 2};
  return models;
}

TEST(JointPipelinesLongTest, MeetInEveryOrderWithinEveryBudget) {
  for (const Bytes device : {kUnlimited, 96 * KiB}) {
    Pipelines models = mixed_pipelines();
    models.set_device(device);
    std::vector<Plan> plans = models.plans();
    expect_that_ranks_meet(plans, {0, 1});
    EXPECT_EQ(plans[0].merged->sequences.size(), 9U) << "none was dropped";
    for (const ComparedSequence& order : plans[0].merged->sequences) {
      SCOPED_TRACE(order.name);
      expect_that_ranks_meet(models.plans(order.name), {0, 1});
    }
  }
}

TEST(JointPipelines, LeaveStateInItsPlaceOnEveryRoleWhenOneEnds) {
  Pipelines models = mixed_pipelines();
  JointPlanner planner = models.planner();
  const std::vector<Plan> first = planner.plan({4, 4, 4, 4});
  const std::optional<std::vector<Plan>> later = planner.find({2, 0, 2, 0});
  ASSERT_TRUE(later);
  expect_that_ranks_meet(*later, {0, 1});
  for (std::size_t stage_set = 0; stage_set < 2; ++stage_set) {
    std::map<std::string, Buffer> places;
    for (const Buffer& buffer : first[stage_set].training().program.buffers) {
      if (buffer.persistent) places[*buffer.name] = buffer;
    }
    for (const Buffer& buffer : (*later)[stage_set].training().program.buffers) {
      if (buffer.persistent) {
        EXPECT_EQ(places.at(*buffer.name).offset, buffer.offset) << *buffer.name;
      }
    }
    for (const Tier tier : kTiers)
      EXPECT_LE((*later)[stage_set].arena_bytes(tier), first[stage_set].arena_bytes(tier));
  }
}

/// Each stage set keeps gathered what it has room for of a data rank's program, so others' meshes may not go
/// with it.
TEST(JointPipelinesLongTest, StandBesideModelsOfOtherMeshes) {
  for (const int zero_stage : {1, 2, 3}) {
    for (const Bytes device : {kUnlimited, 256 * KiB, 128 * KiB, 96 * KiB, 64 * KiB}) {
      SCOPED_TRACE(fmt::format("stage {} in {}", zero_stage, device));
      Pipelines models;
      models.add(one_f_one_b, 4);
      RunConfig& data = models.add(one_f_one_b, 4);
      data.parallel.pipeline = 1;
      data.parallel.data = 2;
      data.parallel.zero_stage = zero_stage;
      models.set_device(device);
      try {
        expect_that_ranks_meet(models.plans(), {0, 1});
      } catch (const ConfigError& error) {
        EXPECT_EQ(zero_stage, 3);
        EXPECT_THAT(error.what(), testing::HasSubstr("parallel.zero_stage: 2 or less"));
      }
    }
  }
}

/// Which rank has which stage set.
// Invariant (StageSets.*): Several pipelines are their runs alone.
TEST(StageSets, AreThoseOfTheSameStagesOfAllModels) {
  const Mesh stages = {.shard = 4, .pipeline = 2}, tensor = {.shard = 2, .pipeline = 2, .tensor = 2},
             data = {.shard = 8};
  const auto of_ranks = [](const std::vector<Mesh>& meshes) {
    const std::vector<StageSet> stage_sets = stage_sets_of(meshes);
    std::vector<std::size_t> numbers;
    for (std::int64_t rank = 0; rank < 8; ++rank) numbers.push_back(stage_set_of(rank, meshes, stage_sets));
    return numbers;
  };
  using testing::ElementsAre;
  EXPECT_THAT(of_ranks({data}), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(of_ranks({stages, data}), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(of_ranks({stages, tensor}), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
}

TEST(StageSets, AreRefusedIfTheirFirstRanksDoNotMeet) {
  const std::vector<Mesh> meshes = {{.shard = 3, .pipeline = 2, .tensor = 2}, {.shard = 4, .pipeline = 3}};
  EXPECT_THROW(stage_sets_of(meshes), ConfigError);
}

}  // namespace
}  // namespace strata
