#include "tests/execute/several_models.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/planner/planner.h"
#include "engine/run/tune/planning_rates.h"
#include "engine/run/tune/request_of_run.h"
#include "tests/support/queued_device.h"

namespace strata::test {
namespace {

/// A model of a run, with what stays where it is.
struct Member {
  std::string name;
  RunConfig config;
  Model model;
  BatchLoader data;
};

using Members = std::vector<std::unique_ptr<Member>>;

Members members_of(const std::vector<RunConfig>& configs, std::int64_t rank) {
  Members members;
  for (const RunConfig& config : configs) {
    const std::string name = "m" + std::to_string(members.size());
    Model model = test::model_of_rank(config, rank);
    const std::int64_t vocabulary = model.architecture.vocabulary;
    members.push_back(
        std::make_unique<Member>(Member{name, config, std::move(model), BatchLoader(config, vocabulary)}));
  }
  return members;
}

Planner planner_of(const Members& members) {
  std::vector<ConfiguredModel> models;
  models.reserve(members.size());
  for (const std::unique_ptr<Member>& member : members)
    models.push_back({member->name, &member->config, &member->model});
  std::vector<ModelToPlan> to_plan = models_to_plan(models);
  for (ModelToPlan& model : to_plan) model.request.effort = SearchEffort::first_placement;
  return {std::move(to_plan), true, planning_rates(members.front()->config)};
}

std::vector<std::int64_t> steps_of(const std::vector<RunConfig>& configs) {
  std::vector<std::int64_t> steps;
  steps.reserve(configs.size());
  for (const RunConfig& config : configs) steps.push_back(config.train.steps);
  return steps;
}

}  // namespace

JointOutcome run_together(const std::vector<RunConfig>& configs, const JointOptions& options) {
  const int rank = options.world == nullptr ? 0 : options.world->rank();
  const Members members = members_of(configs, rank);
  JointOutcome outcome;
  Planner planner = planner_of(members);
  outcome.plans.push_back(planner.of_rank(planner.plan(steps_of(configs), options.order), rank));
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 2, .link = {}});
  std::vector<Trainer::ModelSetup> models;
  models.reserve(members.size());
  for (const std::unique_ptr<Member>& member : members)
    models.push_back({member->config, member->model, data_of(member->config, member->model, member->data)});
  SeveralModels several = options.several;
  several.replan = [&](const SeveralModels::Steps& remaining) -> const Plan* {
    std::optional<std::vector<Plan>> plans = planner.find(remaining, options.order);
    if (!plans) return nullptr;
    return &outcome.plans.emplace_back(planner.of_rank(*plans, rank));
  };
  Trainer trainer(
      std::move(models), outcome.plans.front(), *device,
      {.watchdog_seconds = 60, .files = options.files, .world = options.world, .several = several});
  const std::atomic<bool> never = false;
  TrainListener silent;
  std::vector<TrainListener*> listeners = options.listeners;
  listeners.resize(configs.size(), &silent);
  outcome.results = trainer.train(options.stop != nullptr ? *options.stop : never, listeners);
  outcome.measured = trainer.measured();
  outcome.planned = trainer.planned();
  return outcome;
}

std::vector<JointOutcome> run_together_on(int ranks, std::vector<RunConfig> configs,
                                          const std::function<JointOptions(int rank)>& options) {
  for (RunConfig& config : configs) config.parallel.data = ranks / config.ranks_of_data_rank();
  std::vector<JointOutcome> outcomes(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](int rank, Communicator& world) {
    JointOptions own = options(rank);
    own.world = &world;
    outcomes[static_cast<std::size_t>(rank)] = run_together(configs, own);
  });
  return outcomes;
}

std::vector<double> losses_of(const TrainResult& result) {
  std::vector<double> losses;
  for (const StepReport& step : result.steps) losses.push_back(step.loss);
  for (const ValidationPoint& point : result.validation) losses.push_back(point.loss);
  return losses;
}

std::string joint_refusal(const std::vector<RunConfig>& configs) {
  try {
    planner_of(members_of(configs, 0)).plan(steps_of(configs));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_the_plans_were_exact(const JointOutcome& outcome) {
  for (const Tier tier : kTiers) {
    Bytes planned = 0;
    for (const Plan& plan : outcome.plans) planned = std::max(planned, plan.arena_bytes(tier));
    EXPECT_EQ(outcome.measured.count.peak_bytes[tier], planned) << name_of(tier);
  }
  for (const Link link : kLinks)
    EXPECT_EQ(outcome.measured.count.traffic[link], outcome.planned[link]) << name_of(link);
}

void expect_solo_bits(const RunConfig& config, const TrainResult& result) {
  const TrainResult solo = run(config).result;
  EXPECT_EQ(result.state_hash, solo.state_hash);
  EXPECT_EQ(losses_of(result), losses_of(solo));
  EXPECT_EQ(result.ended, "");
}

void expect_solo_bits(const std::vector<RunConfig>& configs, const JointOutcome& outcome) {
  for (std::size_t m = 0; m < configs.size(); ++m) {
    SCOPED_TRACE(m);
    expect_solo_bits(configs[m], outcome.results[m]);
  }
  expect_the_plans_were_exact(outcome);
}

}  // namespace strata::test
