// Every update rule in whole runs: its bits depend on no placement, it keeps its moments and nothing else,
// resumes exactly, and goes with ranks, stages and late updates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <set>

#include <fmt/format.h>

#include "base/enum_array.h"
#include "base/file.h"
#include "base/nth.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "optim/update_rule.h"
#include "tests/base/expect_error.h"
#include "tests/execute/placements.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"
#include "tests/support/queued_device.h"
#include "tests/support/rule_in_run_file.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::hashes_of_two_ranks;
using test::run;
using test::run_ranks;
using test::RunOutcome;
using test::smallest_bytes;
using test::TemporaryFolder;

struct Way {
  UpdateRule rule;
  DType precision = DType::bf16;
  MasterFormat master = MasterFormat::fp32;
  MomentFormat moments = MomentFormat::fp32;
  double clip_norm = 1;
};
/// The smallest form of a rule's state.
constexpr Way smallest(UpdateRule rule) {
  const bool keeps_moments = moments_of(rule).count() > 0;
  return {rule, DType::bf16, MasterFormat::none, keeps_moments ? MomentFormat::coded : MomentFormat::fp32};
}

std::string name_of(const Way& way) {
  return fmt::format("{}_{}{}{}{}", name_of(way.rule), name_of(way.precision),
                     nth(std::array{"", "_split", "_without_master"}, way.master),
                     nth(std::array{"", "_bf16_moments", "_8bit_moments"}, way.moments),
                     way.clip_norm > 0 ? "" : "_unclipped");
}

/// All rules but AdamW, which most other tests have.
std::vector<UpdateRule> other_rules() {
  std::vector<UpdateRule> rules(kUpdateRules.begin(), kUpdateRules.end());
  std::erase(rules, UpdateRule::adamw);
  return rules;
}

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const UpdateRule rule : other_rules()) {
    all.push_back({rule});
    all.push_back(smallest(rule));
  }
  for (const UpdateRule rule : {UpdateRule::sgd, UpdateRule::sgd_momentum, UpdateRule::rmsprop_momentum}) {
    all.push_back({rule, DType::fp32});
    all.push_back({rule, DType::fp16});
  }
  all.push_back({UpdateRule::sgd, DType::bf16, MasterFormat::split, MomentFormat::fp32, 0});
  return all;
}

class UpdateRuleWay : public ::testing::TestWithParam<Way> {
 protected:
  RunConfig config(const Way& way) const {
    RunConfig config = test::tiny_run(folder_.path());
    config.train.threads = 1;
    config.train.precision = way.precision;
    test::set_rule(config.optimizer, way.rule);
    config.optimizer.master = way.master;
    config.optimizer.moments = way.moments;
    config.optimizer.clip_norm = way.clip_norm;
    config.schedule.type = ScheduleType::cosine;
    return config;
  }
  RunConfig config() const { return config(GetParam()); }

  const TemporaryFolder folder_;
};

// Invariant of state and checkpoints (UpdateRule*.*): An update rule keeps only its own moments. Every rule
// has the invariants of AdamW: placements, ranks, stages and drives change no bit, plans are exact, and
// checkpoints resume. A checkpoint of another rule is refused.
TEST_P(UpdateRuleWay, PlacementChangesNoBitAndThePlanIsExact) {
  test::expect_the_same_bits_wherever_state_lives(config(), folder_.path());
}

TEST_P(UpdateRuleWay, ResumesToTheSameBitsWhetherTheHostCanAddressTheStateOrNot) {
  RunConfig config = this->config();
  config.schedule.type = ScheduleType::constant;  // another would follow the number of steps
  const std::string straight = run(config).result.state_hash;
  test::QueuedDevice queued({.threads = 2, .link = {}});
  for (Device* device : {static_cast<Device*>(nullptr), static_cast<Device*>(&queued)}) {
    config.checkpoint.path = (folder_.path() / (device == nullptr ? "cpu" : "queued")).string();
    config.checkpoint.every = device == nullptr ? 0 : 1;  // once it stands still, or while it trains
    config.train.steps = 2;
    run(config, {.device = device});
    config.train.steps = 4;
    EXPECT_EQ(run(config, {.device = device}).result.state_hash, straight);
  }
}

TEST_P(UpdateRuleWay, Learns) {
  constexpr EnumTable<UpdateRule, double> kRates = {3e-3, 0.2,  0.02, 1e-3, 2e-3, 3e-4,
                                                    0.02, 2e-3, 3e-3, 3e-3, 3e-3, 0.02};
  RunConfig config = this->config();
  config.optimizer.learning_rate = kRates[GetParam().rule];
  config.schedule.type = ScheduleType::constant;
  config.train.steps = 30;
  const TrainResult result = run(config).result;
  EXPECT_LT(result.steps.back().loss, 0.9 * result.steps.front().loss);
}

INSTANTIATE_TEST_SUITE_P(Ways, UpdateRuleWay, ::testing::ValuesIn(ways()),
                         [](const auto& info) { return name_of(info.param); });

class UpdateRuleRun : public UpdateRuleWay {};

TEST_F(UpdateRuleRun, DiffersFromThoseOfOtherRules) {
  std::set<double> losses;  // a hash would differ by the moments that are kept
  for (const UpdateRule rule : kUpdateRules) {
    RunConfig config = this->config({rule});
    config.train.steps = 3;  // the first update is the same with any momentum
    losses.insert(run(config).result.steps.back().loss);
  }
  EXPECT_EQ(losses.size(), kUpdateRules.size());
}

TEST_F(UpdateRuleRun, StateHasItsBytesPerParameterAndMovesThemToAndFromDrives) {
  if (const std::string reason = test::why_no_drive(folder_.path()); !reason.empty()) GTEST_SKIP() << reason;
  using enum UpdateRule;
  constexpr Bytes kCoded = 1;  // and the groups' exponents
  // Master, if there is one beside the parameter, and moments.
  const std::vector<std::pair<Way, std::vector<Bytes>>> cases = {
      {{sgd}, {4}},
      {{sgd, DType::fp32}, {}},
      {smallest(sgd), {}},
      {{sgd_momentum}, {4, 4}},
      {{sgd_momentum, DType::fp32}, {4}},
      {smallest(sgd_momentum), {kCoded}},
      {{lion}, {4, 4}},
      {smallest(lion), {kCoded}},
      {{rmsprop}, {4, 4}},
      {{rmsprop_momentum}, {4, 4, 4}},
      {{rmsprop_momentum, DType::fp32}, {4, 4}},
      {{rmsprop_momentum, DType::bf16, MasterFormat::none, MomentFormat::bf16}, {2, 2}},
      {smallest(rmsprop_momentum), {kCoded, kCoded}},
      {{adagrad}, {4, 4}},
      {{adafactor}, {4}},
      {smallest(adafactor), {}},
      {{adagrad_rowwise}, {4}},
      {{ademamix}, {4, 4, 4, 4}},
      {smallest(ademamix), {kCoded, kCoded, 2}},
  };
  for (const auto& [way, sizes] : cases) {
    SCOPED_TRACE(name_of(way));
    RunConfig config = this->config(way);
    config.train.steps = 2;
    config.memory.device = smallest_bytes(config);
    config.memory.nvme_path = {folder_.path().string()};
    config.memory.optimizer_state = TierChoice::nvme;
    const RunOutcome outcome = run(config);
    expect_the_plan_was_exact(outcome);
    const auto bytes_of = [](Bytes size, std::int64_t elements) {
      return size == kCoded ? coded_bytes(elements) : size * elements;
    };
    Bytes expected = 0, per_block = size_of(way.precision) * kCodedBlock;
    for (const Bytes size : sizes) per_block += bytes_of(size, kCodedBlock);
    const Strategy& strategy = outcome.plan.only().strategy;
    for (const Unit& unit : test::model_of(config).units) {
      for (const Piece& piece : state_pieces(unit.elements, strategy)) {
        const std::int64_t count = piece.is_all() ? unit.elements : piece.count;
        for (const Bytes size : sizes) expected += align_up(bytes_of(size, count), kBufferAlignment);
      }
    }
    EXPECT_EQ(outcome.plan.training().moved(Link::nvme_read), expected);
    EXPECT_EQ(outcome.plan.training().moved(Link::nvme_write), expected);
    EXPECT_EQ(strategy.state_format.state_bytes(way.precision, kCodedBlock), per_block);
  }
}

TEST_F(UpdateRuleRun, HasTheSameBitsUnderEveryZeroStageWhereverStateLives) {
  for (const UpdateRule rule : other_rules()) {
    const Way way = {rule};
    std::set<std::string> hashes;
    for (const int stage : {0, 1, 2, 3}) {
      RunConfig config = this->config(way);
      config.train.microbatch = 1;
      config.parallel.data = 2;
      config.parallel.zero_stage = stage;
      hashes.merge(hashes_of_two_ranks(config));
    }
    EXPECT_EQ(hashes.size(), 1U) << name_of(way);
  }
}

// Invariant of ranks (UpdateRuleRun.MuonAndNorMuonShare*): Ranks that share out matrices give the bits of
// ranks that orthogonalize them all. They share them out if products are slow and the link is fast.
TEST_F(UpdateRuleRun, MuonAndNorMuonShareOutMatricesAndChangeNoBit) {
  for (const auto& [rule, precision] : {std::pair{UpdateRule::muon, DType::fp32},
                                        {UpdateRule::muon, DType::bf16},
                                        {UpdateRule::normuon, DType::bf16}}) {
    for (const std::int64_t tensor : {1, 2}) {
      std::set<std::string> hashes;
      for (const bool shares_out : {true, false}) {
        RunConfig config = this->config({rule, precision});
        config.train.steps = 2;
        config.train.microbatch = 1;
        config.parallel.data = 3;
        config.parallel.tensor = tensor;
        if (shares_out) {
          config.device.flops_per_second = 1e9;
        } else {
          config.device.sent_per_second = 4 * MiB;
        }
        for (const TierChoice tier : {TierChoice::device, TierChoice::host}) {
          config.memory.optimizer_state = tier;
          const std::vector<RunOutcome> ranks = run_ranks(config, static_cast<int>(3 * tensor));
          for (const RunOutcome& rank : ranks) {
            EXPECT_EQ(rank.plan.only().strategy.shares_out_matrices, shares_out);
            expect_the_plan_was_exact(rank);
            hashes.insert(rank.result.state_hash);
          }
        }
      }
      EXPECT_EQ(hashes.size(), 1U) << name_of(precision) << " tensor " << tensor;
    }
  }
}

TEST_F(UpdateRuleRun, HasTheSameBitsUnderEveryScheduleOfAPipeline) {
  using enum PipelineSchedule;
  for (const UpdateRule rule : other_rules()) {
    const Way way = {rule, rule == UpdateRule::sgd ? DType::fp32 : DType::bf16};
    std::set<std::string> hashes;
    for (const PipelineSchedule schedule : {gpipe, one_f_one_b, zero_bubble}) {
      RunConfig config = this->config(way);
      config.parallel.pipeline = 2;
      config.parallel.schedule = schedule;
      hashes.merge(hashes_of_two_ranks(config));
    }
    EXPECT_EQ(hashes.size(), 1U) << name_of(way);
  }
}

TEST_F(UpdateRuleRun, HasTheSameBitsInAsynchronousPipelinesWhereverStateLives) {
  using enum PipelineSchedule;
  for (const PipelineSchedule schedule : {pipedream, pipedream_2bw}) {
    for (const UpdateRule rule : other_rules()) {
      const Way way = {rule, rule == UpdateRule::sgd_momentum ? DType::fp32 : DType::bf16};
      RunConfig config = this->config(way);
      config.model.config["tie_word_embeddings"] = false;
      config.optimizer.clip_norm = 0;
      config.parallel.pipeline = 2;
      config.parallel.schedule = schedule;
      EXPECT_EQ(hashes_of_two_ranks(config).size(), 1U) << name_of(way);
    }
  }
}

TEST_F(UpdateRuleRun, GoesOnFromACheckpointOnAnyNumberOfRanks) {
  for (const UpdateRule rule : other_rules()) {
    RunConfig config = this->config({rule, DType::fp32});
    config.train.microbatch = 1;
    config.checkpoint.path = (folder_.path() / name_of(rule)).string();
    config.train.steps = 2;
    const std::string saved = run(config).result.state_hash;
    config.parallel.data = 3;
    EXPECT_EQ(run_ranks(config, 3).front().result.state_hash, saved);
    config.train.steps = 4;
    const std::string further = run_ranks(config, 3).front().result.state_hash;
    config.parallel.data = 1;
    EXPECT_EQ(run(config).result.state_hash, further);
  }
}

TEST_F(UpdateRuleRun, SkipsAStepThatOverflowsWithoutATrace) {
  for (const UpdateRule rule : other_rules()) {
    for (const bool on_host : {false, true}) {
      RunConfig config = this->config({rule, DType::fp16});
      config.schedule.type = ScheduleType::constant;  // another would follow the number of steps
      config.train.loss_scale_initial = 1024;
      config.train.loss_scale_growth = 1e30;  // after the first step
      config.train.loss_scale_interval = 1;
      if (on_host) config.memory.device = smallest_bytes(config);
      config.train.steps = 1;
      const std::string updated = run(config).result.state_hash;
      config.train.steps = 2;
      const TrainResult skipped = run(config).result;
      EXPECT_EQ(skipped.counters.skipped, 1);
      EXPECT_EQ(skipped.state_hash, updated) << name_of(rule);
    }
  }
}

TEST_F(UpdateRuleRun, RefusesACheckpointOfAnotherRule) {
  RunConfig config = this->config({UpdateRule::sgd_momentum});
  config.train.steps = 1;
  config.checkpoint.path = (folder_.path() / "out").string();
  run(config);
  const auto manifest = folder_.path() / "out" / "step-00000001" / "manifest.json";
  EXPECT_THAT(read_file(manifest), ::testing::HasSubstr("\"update_rule\": \"sgd_momentum\""));
  RunConfig plain = config;
  plain.optimizer.momentum = 0;
  test::expect_error<ConfigError>(
      [&] { run(plain); },
      {"step-00000001", "is of a run with optimizer.type sgd with momentum",
       "this one has optimizer.type sgd without momentum", "another checkpoint.path or --fresh"});
  RunConfig adamw = plain;
  adamw.optimizer.type = OptimizerType::adamw;
  test::expect_error<ConfigError>([&] { run(adamw); }, {"this one has optimizer.type adamw"});
  EXPECT_EQ(run(config).result.steps.size(), 0U);
  EXPECT_EQ(run(adamw, {.fresh = true}).result.steps.size(), 1U);
  test::expect_error<ConfigError>([&] { run(config); }, {"is of a run with optimizer.type adamw"});
}

}  // namespace
}  // namespace strata
