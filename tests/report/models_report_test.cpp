// What plan and report of several models say, and that the figures are theirs.
#include "engine/tools/report/models_report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "engine/config/run_config.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/plan/planner/needs.h"
#include "engine/plan/planner/planner.h"
#include "engine/run/tune/planning_rates.h"
#include "engine/run/tune/request_of_run.h"

namespace strata {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

RunConfig tiny_config(std::int64_t layers) {
  RunConfig config;
  config.model.architecture = "llama";
  config.model.config = {{"num_hidden_layers", layers}, {"hidden_size", 32}, {"num_attention_heads", 4},
                         {"intermediate_size", 48},     {"vocab_size", 128}, {"tie_word_embeddings", true}};
  config.data.sequence_length = 24;
  config.train.steps = 20;
  config.train.batch = 4;
  config.train.microbatch = 2;
  config.train.precision = DType::bf16;
  config.memory.device = 256 * KiB;
  config.memory.host = kUnlimited;
  return config;
}

Model model_of(const RunConfig& config) {
  nlohmann::json keys = config.model.config;
  keys["model_type"] = config.model.architecture;
  return build_model(parse_architecture(keys, "test"), {.optimizer = config.optimizer});
}

TrainResult result_of(const std::vector<double>& losses, const std::vector<double>& validation) {
  TrainResult result;
  for (const double loss : losses) {
    StepReport step;
    step.step = std::ssize(result.steps);
    step.loss = loss;
    step.seconds = 0.5;
    step.begins = step.step == 0;
    result.steps.push_back(step);
  }
  for (const double loss : validation) result.validation.push_back({std::ssize(losses), loss});
  result.counters.step = std::ssize(losses);
  result.state_hash = "abc";
  return result;
}

/// Three models of one plan: two of three layers, and one of two.
class ModelsReportTest : public ::testing::Test {
 protected:
  ModelsReportTest() {
    plan_ = planner_.plan().front();
    for (std::size_t m = 0; m < 3; ++m) {
      outcomes_.push_back({.name = planner_.models()[m].name,
                           .overrides = {{"optimizer.lr", "1e-" + std::to_string(m)}},
                           .config = &configs_[m],
                           .plan = &*plan_.models[m],
                           .result = result_of(std::vector<double>(20, 3.0 - static_cast<double>(m)), {})});
    }
  }
  ModelsReport report(bool by_validation = true) const {
    return {.plan = &plan_,
            .models = outcomes_,
            .measured = measured_,
            .planned = planned_,
            .rates = rates_,
            .seconds = 12,
            .by_validation = by_validation};
  }
  /// Names in the order of the ranking.
  std::vector<std::string> best(bool by_validation = true) const {
    std::vector<std::string> names;
    for (const std::size_t m : report(by_validation).ranking()) names.push_back(outcomes_[m].name);
    return names;
  }

  std::vector<RunConfig> configs_ = {tiny_config(3), tiny_config(3), tiny_config(2)};
  std::vector<Model> models_ = {model_of(configs_[0]), model_of(configs_[1]), model_of(configs_[2])};
  MachineRates rates_ = planning_rates(configs_[0]);
  Planner planner_ = {models_to_plan({{"first", configs_.data(), models_.data()},
                                      {"second", &configs_[1], &models_[1]},
                                      {"third", &configs_[2], &models_[2]}}),
                      true, rates_};
  Plan plan_;
  std::vector<ModelOutcome> outcomes_;
  Measurements measured_;
  Traffic planned_;
};

using Leaderboard = ModelsReportTest;
using ModelsJson = ModelsReportTest;
using JointPlanReport = ModelsReportTest;

TEST_F(Leaderboard, IsByLossWithoutValidation) {
  EXPECT_THAT(best(), ElementsAre("third", "second", "first"));
  EXPECT_FALSE(report().ranks_by_validation());
}

TEST_F(Leaderboard, IsByTheLatestValidationIfAllHaveOne) {
  outcomes_[0].result.validation = {{0, 9}, {20, 1}};
  outcomes_[1].result.validation = {{20, 2}};
  EXPECT_THAT(best(), ElementsAre("third", "second", "first"));
  outcomes_[2].result.validation = {{20, 3}};
  EXPECT_THAT(best(), ElementsAre("first", "second", "third"));
  EXPECT_THAT(best(false), ElementsAre("third", "second", "first"));
}

TEST_F(Leaderboard, AsksForNoValidationOfThoseThatEndedOrTookNoPart) {
  outcomes_[0].result.validation = {{20, 1}};
  outcomes_[1].ended = "its loss is not finite";
  outcomes_[2].result = result_of({}, {});
  outcomes_[2].plan = nullptr;
  EXPECT_TRUE(report().ranks_by_validation());
  EXPECT_THAT(best(), ElementsAre("first"));
}

TEST_F(Leaderboard, TakesTheMeanOfTheLastTenSteps) {
  std::vector<double> losses(20, 100);
  for (std::size_t step = 10; step < 20; ++step) losses[step] = step % 2 == 0 ? 1 : 2;
  EXPECT_DOUBLE_EQ(recent_loss(result_of(losses, {})).value(), 1.5);
  EXPECT_DOUBLE_EQ(recent_loss(result_of({4, 6}, {})).value(), 5);
  EXPECT_EQ(recent_loss({}), std::nullopt);
}

TEST_F(Leaderboard, HoldsWhatIsNotANumberForTheWorst) {
  outcomes_[0].result.steps.back().loss = kNan;
  EXPECT_THAT(best(), ElementsAre("third", "second", "first"));
}

/// Its loss is that of the weights it began with.
TEST_F(Leaderboard, HasNoPlaceForAModelThatLearnedNothing) {
  outcomes_[2].result.counters.skipped = 20;
  EXPECT_THAT(best(), ElementsAre("second", "first"));
  EXPECT_THAT(leaderboard_text(report()), HasSubstr("  learned nothing: no step's gradients were finite\n"));
  outcomes_[2].result.counters.skipped = 19;
  EXPECT_THAT(best(), ElementsAre("third", "second", "first"));
}

TEST_F(Leaderboard, NamesRankOverridesStepLossesAndState) {
  outcomes_[1].ended = "its loss is not finite";
  outcomes_[1].result = result_of({7}, {});
  outcomes_[0].result.counters.step = 12;
  EXPECT_THAT(
      leaderboard_text(report()),
      AllOf(HasSubstr("leaderboard by loss, the mean over the last 10 steps\n"),
            HasSubstr("rank  model   overrides           step    loss  validation  state\n"),
            HasSubstr("   1  third   optimizer.lr=1e-2  20/20  1.0000           -  trained\n"),
            HasSubstr("   2  first   optimizer.lr=1e-0  12/20  3.0000           -  stopped\n"),
            HasSubstr("   -  second  optimizer.lr=1e-1   1/20  7.0000           -  ended: its loss is not "
                      "finite\n")));
}

TEST_F(Leaderboard, OrdersModelsWithoutARankByHowFarTheyCameAndThenByLoss) {
  for (ModelOutcome& outcome : outcomes_) outcome.ended = "outdone";
  outcomes_[0].result = result_of({1, 9}, {});
  outcomes_[1].result = result_of({1, 7}, {});
  outcomes_[2].result = result_of({1, 9, 9}, {});
  const std::string text = leaderboard_text(report());
  EXPECT_LT(text.find("-  third"), text.find("-  second"));
  EXPECT_LT(text.find("-  second"), text.find("-  first"));
  EXPECT_THAT(text, HasSubstr("models without a rank: those that came further first, then by loss\n"));
}

TEST_F(Leaderboard, TellsMakespanIdleTimeMemoryTrafficAndOrders) {
  measured_.busy_seconds[Lane::compute] = 9;
  measured_.count.peak_bytes[Tier::device] = 3 * MiB;
  measured_.count.traffic[Link::h2d] = 5 * MiB;
  planned_[Link::h2d] = 6 * MiB;
  // 3 models, 20 steps, 96 tokens, 12 seconds
  EXPECT_THAT(leaderboard_text(report()), Not(HasSubstr("turns ")));
  EXPECT_THAT(leaderboard_text(report(), /*is_verbose=*/true),
              AllOf(HasSubstr("all models 12s, 480 tokens/s\n"),
                    HasSubstr("computing  75.0 % of the time, 25.0 % idle\n"),
                    HasSubstr("memory     device  peak " + format_bytes(plan_.arena_bytes(Tier::device)) +
                              " of 256.00 KiB: "),
                    HasSubstr("; measured peak 3.00 MiB\n"),
                    HasSubstr("traffic    h2d 6.00 MiB planned, 5.00 MiB measured\n"),
                    HasSubstr("turns      "), HasSubstr(" s per round ("), Not(HasSubstr("nvme"))));
}

/// What was trained before has no plan and took no time.
TEST_F(Leaderboard, SaysThatNothingWasLeftToTrainInsteadOfFigures) {
  for (ModelOutcome& outcome : outcomes_) outcome.plan = nullptr;
  ModelsReport nothing = report();
  nothing.plan = nullptr;
  EXPECT_THAT(leaderboard_text(nothing),
              AllOf(HasSubstr("   1  third   optimizer.lr=1e-2  20/20  1.0000           -  trained before\n"),
                    EndsWith("\nnothing was left to train: each model was trained or ended before\n"),
                    Not(HasSubstr("all models")), Not(HasSubstr("%")), Not(HasSubstr("order  "))));
  const nlohmann::json json = models_json(nothing);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("models", "ranked_by"));
}

TEST_F(ModelsJson, HasModelsInTheRunFilesOrder) {
  outcomes_[1].ended = "its loss is not finite";
  outcomes_[1].result = result_of({7, kNan}, {8});
  outcomes_[2].plan = nullptr;
  outcomes_[2].result = result_of({}, {});
  outcomes_[2].result.counters.step = 20;
  configs_[2].checkpoint.path = "out/third";
  const nlohmann::json json = nlohmann::json::parse(models_json(report()).dump());
  EXPECT_EQ(json["ranked_by"], "loss");
  ASSERT_EQ(json["models"].size(), 3U);
  const nlohmann::json &first = json["models"][0], &second = json["models"][1], &third = json["models"][2];
  EXPECT_EQ(first["name"], "first");
  EXPECT_EQ(first["overrides"], nlohmann::json({{"optimizer.lr", "1e-0"}}));
  EXPECT_EQ(first["rank"], 1);
  EXPECT_EQ(first["steps"], 20);
  EXPECT_EQ(first["loss"], 3.0);
  EXPECT_EQ(first["losses"], nlohmann::json(std::vector<double>(20, 3.0)));
  EXPECT_TRUE(first["validation_loss"].is_null());
  EXPECT_TRUE(first["ended"].is_null());
  EXPECT_TRUE(first["checkpoint"].is_null());
  EXPECT_EQ(first["interrupted"], false);
  EXPECT_EQ(first["tokens_per_second"], 192);
  EXPECT_EQ(first["state_hash"], "abc");
  EXPECT_TRUE(second["rank"].is_null());
  EXPECT_TRUE(second["loss"].is_null());
  EXPECT_EQ(second["validation_loss"], 8);
  EXPECT_EQ(second["ended"], "its loss is not finite");
  EXPECT_EQ(second["interrupted"], false);
  EXPECT_TRUE(third["loss"].is_null());
  EXPECT_THAT(third["losses"], IsEmpty());
  EXPECT_EQ(third["interrupted"], false);
  EXPECT_EQ(third["checkpoint"], "out/third");
}

TEST_F(ModelsJson, TellsOfTheRunInTheWordsOfARunOfOneModel) {
  measured_.busy_seconds[Lane::compute] = 9;
  measured_.count.peak_bytes[Tier::host] = 7;
  planned_[Link::h2d] = 7;
  const nlohmann::json json = models_json(report());
  EXPECT_EQ(json["seconds"], 12);
  EXPECT_EQ(json["tokens_per_second"], 480);
  EXPECT_EQ(json["idle_share"], 0.25);
  EXPECT_EQ(json["busy_seconds"]["compute"], 9);
  EXPECT_EQ(json["memory"]["device"]["budget_bytes"], 256 * KiB);
  EXPECT_EQ(json["memory"]["device"]["planned_peak_bytes"], plan_.arena_bytes(Tier::device));
  EXPECT_EQ(json["memory"]["host"]["measured_peak_bytes"], 7);
  EXPECT_EQ(json["traffic"]["h2d"]["planned_bytes"], 7);
  EXPECT_EQ(json["traffic"]["h2d"]["measured_bytes"], 0);
  EXPECT_EQ(json["machine"], rates_json(rates_));
  EXPECT_EQ(json["turn_sequences"].size(), plan_.merged->sequences.size());
  EXPECT_EQ(json["round_seconds"], plan_.merged->round_seconds);
}

TEST_F(JointPlanReport, HasALineForEachModelAndWhatAllShare) {
  const std::string text = plan_text(plan_, planner_.models(), nullptr);
  const Bytes device = plan_.models[2]->training.use[Tier::device].live_bytes;
  EXPECT_THAT(text, AllOf(HasSubstr("models   3: "), HasSubstr("\n  first   "), HasSubstr("\n  second  "),
                          HasSubstr("\n  third   21,664 parameters, 20 steps of 96 tokens, bf16:  device " +
                                    format_bytes(device)),
                          HasSubstr("\ndevice  peak "), HasSubstr(" per round"), HasSubstr("\nturns    "),
                          HasSubstr(" s of computing, "), Not(HasSubstr("needs "))));
  EXPECT_THAT(plan_text(plan_, planner_.models(), &rates_), HasSubstr("\nat best  "));
}

TEST_F(JointPlanReport, NamesTheChosenOrderFirst) {
  Plan plan;
  plan.merged.emplace();
  plan.merged->sequences = {{.name = "one", .seconds = 3},
                            {.name = "two", .seconds = 2, .is_chosen = true},
                            {.name = "three", .seconds = 4}};
  plan.merged->round_seconds = 2;
  plan.merged->computing_seconds = 1.5;
  EXPECT_EQ(sequence_text(plan),
            "two, planned 2.0000 s per round (1.5000 s of computing, 75 %); compared with one 3.0000 s, "
            "three 4.0000 s");
}

TEST_F(JointPlanReport, ToleratesModelsThatTakeNoPart) {
  const Plan plan = planner_.plan({20, 0, 5}).front();
  EXPECT_THAT(plan_text(plan, planner_.models(), nullptr),
              AllOf(HasSubstr("models   2: "), HasSubstr("\n  second  takes no part\n")));
  EXPECT_EQ(plan_json(plan, planner_.models(), nullptr)["models"][1],
            nlohmann::json({{"name", "second"}, {"steps", 20}, {"takes_part", false}}));
}

TEST_F(JointPlanReport, AsJsonHasThePlanOfEachAndOfAll) {
  const nlohmann::json json = plan_json(plan_, planner_.models(), &rates_);
  ASSERT_EQ(json["models"].size(), 3U);
  const nlohmann::json& third = json["models"][2];
  EXPECT_EQ(third["name"], "third");
  EXPECT_EQ(third["tokens_per_step"], 96);
  EXPECT_EQ(third["parameters"], plan_.models[2]->parameters);
  EXPECT_EQ(third["memory"]["device"]["live_bytes"], plan_.models[2]->training.use[Tier::device].live_bytes);
  EXPECT_EQ(json["memory"]["device"]["planned_peak_bytes"], plan_.arena_bytes(Tier::device));
  Bytes copied = 0;
  for (const nlohmann::json& model : json["models"])
    copied += model["traffic"]["h2d"]["planned_bytes"].get<Bytes>();
  EXPECT_EQ(json["traffic"]["h2d"]["planned_bytes"], copied);
  std::int64_t chosen = 0;
  for (const nlohmann::json& order : json["turn_sequences"]) chosen += order["chosen"].get<bool>() ? 1 : 0;
  EXPECT_EQ(chosen, 1);
  EXPECT_LE(json["computing_seconds"], json["round_seconds"]);
  double compute = 0;
  for (const auto& model : plan_.models) compute += model->flops.executed / rates_.flops_per_second;
  EXPECT_DOUBLE_EQ(json["needs"]["compute"], compute);
}

}  // namespace
}  // namespace strata
