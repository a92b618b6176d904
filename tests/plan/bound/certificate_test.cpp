// The certificate beside the simulated time of plans that choose at random, and of all plans of small runs.
#include "engine/plan/bound/certificate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "base/precision.h"
#include "engine/config/run_config.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/passes/tier_pair.h"
#include "engine/plan/place/finish.h"
#include "engine/plan/place/placement.h"
#include "engine/plan/planner/planned_run.h"
#include "engine/plan/planner/run_certificate.h"
#include "tests/plan/support.h"

namespace strata::test {
namespace {

Model tiny_gpt2(std::int64_t layers, Rounding rounding = Rounding::none) {
  Architecture a;
  a.model_type = "gpt2";
  a.family = Family::gpt2;
  a.layers = layers;
  a.hidden = 16;
  a.heads = a.kv_heads = 2;
  a.head_dimension = 8;
  a.intermediate = 64;
  a.vocabulary = 40;
  a.max_positions = 64;
  a.tied_head = true;
  return build_model(a, {.rounding = rounding});
}

/// A run of one rank, and a choice of what its plans may choose.
struct RandomPlan {
  Model model;
  RunConfig config;
  Strategy strategy;
  double kept_share = 1;
};

RandomPlan random_plan(std::mt19937& random) {
  const auto number = [&](std::int64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
  const bool is_gpt2 = number(1) == 1;
  const std::int64_t layers = 1 + number(4);
  StrategyOptions options{.order = number(1) == 1 ? Order::layer_major : Order::microbatch_major,
                          .precision = number(2) == 0 ? DType::fp32 : DType::bf16,
                          .microbatches = 1 + number(5),
                          .clips = number(2) > 0};
  options.updates_late = options.clips && number(2) == 0;
  const bool has_drives = number(2) == 0;
  if (has_drives) options.piece_bytes = 2 * KiB;
  const bool is_packed = options.precision == DType::bf16 && number(2) == 0;
  if (is_packed) options.packed.trained = ParameterFormat::fp8;
  const Rounding rounding = is_packed ? Rounding::e4m3 : Rounding::none;
  RandomPlan plan{
      is_gpt2 ? tiny_gpt2(layers, rounding) : tiny_model(layers, number(1) == 1, 40, {}, rounding),
      tiny_config(options),
      {}};
  plan.strategy = tiny_strategy(plan.model, options);
  const std::int64_t units_on_device = number(2) == 0 ? std::ssize(plan.model.units) : number(layers);
  for (std::size_t u = 0; u < plan.model.units.size(); ++u) {
    plan.strategy.saved_level[u] = static_cast<std::size_t>(number(4));
    plan.strategy.state[u] = number(units_on_device) > 0 ? Tier::device : Tier::host;
  }
  const Program plain = lower_training(plan.model, plan.strategy);
  const Bytes least = Residency(plain, kDevicePair).needs().smallest;
  plan.config.memory.device = least + align_up(least * number(100) / 40, kBufferAlignment);
  if (has_drives) {
    plan.config.memory.host = align_up((20 + 50 * number(20)) * KiB, kBufferAlignment);
    plan.config.memory.nvme_path = {"drive"};
  }
  plan.kept_share = 0.5 + 0.05 * static_cast<double>(number(10));
  return plan;
}

/// Seconds of a step, or nothing if it does not fit.
std::optional<double> planned_seconds(const Model& model, const Strategy& strategy,
                                      const MemoryRequest& memory, double kept_share,
                                      const MachineRates& rates) {
  Shortage shortage;
  std::optional<Placement> placed =
      place_plain(lower_training(model, strategy), {}, memory, kept_share, shortage);
  if (!placed) return std::nullopt;
  const PlannedProgram planned = finish(std::move(placed->training), memory);
  return std::max(simulated_seconds(planned.program, planned.dependencies, rates),
                  placed_cost(planned.program, rates).seconds);
}

/// STRATA_TEST_CERTIFICATES sets another number.
int count_of_plans() {
  const char* const count = std::getenv("STRATA_TEST_CERTIFICATES");
  return count == nullptr ? 400 : std::atoi(count);
}

// Invariant of planning (Certificates*.*): No plan beats its certificate. Random placements, orders and
// levels of recomputation take longer than the bound, and so do all plans of small runs. More memory or a
// faster machine never raises the bound. `STRATA_TEST_CERTIFICATES=10000` tries more random plans.
TEST(Certificates, CountWhatTheLastUnitsPassHasOnce) {
  const StrategyOptions options{.precision = DType::bf16, .microbatches = 1};
  const Model model = tiny_gpt2(2);
  const Strategy strategy = tiny_strategy(model, options);
  std::mt19937 random(1);
  const StepFacts facts = facts_of(model, strategy, random_rates(random));
  const Program plain = lower_training(model, strategy);
  const auto last = static_cast<std::int32_t>(model.units.size()) - 1;
  std::set<BufferId> there;
  for (const Instruction& instruction : plain.instructions) {
    if (instruction.unit != last || instruction.operation != Operation::backward) continue;
    for_each_operand(instruction, [&](const Operand& operand, bool) { there.insert(operand.buffer); });
    break;
  }
  Bytes bytes = 0;
  for (const BufferId id : there) bytes += plain.buffer(id).tier == Tier::device ? plain.buffer(id).bytes : 0;
  EXPECT_GT(facts.units.back().levels.front().kept, 0);
  EXPECT_EQ(facts.turn + facts.units.back().levels.front().kept, bytes);
}

TEST(CertificatesLongTest, AreBeatenByNoRandomPlan) {
  int plans = 0;
  double nearest = std::numeric_limits<double>::infinity();
  for (std::uint32_t seed = 1; plans < count_of_plans(); ++seed) {
    std::mt19937 random(seed);
    const RandomPlan plan = random_plan(random);
    const MachineRates rates = random_rates(random);
    const std::optional<double> seconds = planned_seconds(
        plan.model, plan.strategy, memory_request(plan.config.memory), plan.kept_share, rates);
    if (!seconds) continue;
    ++plans;
    const Certificate certificate = certify(facts_of(plan.model, plan.strategy, rates),
                                            memory_request(plan.config.memory).budgets(), rates);
    EXPECT_GT(certificate.seconds, 0) << seed;
    EXPECT_LE(certificate.seconds, *seconds * (1 + 1e-9)) << "seed " << seed;
    nearest = std::min(nearest, *seconds / certificate.seconds - 1);
  }
  RecordProperty("nearest", fmt::format("{:.6f}", nearest));
  fmt::print("{} plans; the nearest is {:.3f} % above its bound\n", plans, 100 * nearest);
}

/// The shortest step over all places of state, levels of recomputation, orders and a few shares of the device
/// for what stays.
double shortest_step(const Model& model, const RunConfig& config, const Strategy& first,
                     const MachineRates& rates) {
  double shortest = std::numeric_limits<double>::infinity();
  const std::size_t units = model.units.size();
  const auto compute = unit_compute(model, first.precision, first.microbatch);
  const std::size_t levels = compute->passes(model.units[1]).levels.size();
  for (std::size_t places = 0; places < (std::size_t{1} << units); ++places) {
    for (std::size_t level = 0; level < levels; ++level) {
      for (const Order order : {Order::layer_major, Order::microbatch_major}) {
        for (const bool late : {false, true}) {
          Strategy strategy = first;
          strategy.order = order;
          strategy.updates_late = late;
          std::ranges::fill(strategy.saved_level, level);
          for (std::size_t u = 0; u < units; ++u)
            strategy.state[u] = (places >> u) % 2 == 1 ? Tier::device : Tier::host;
          for (const double share : {0.6, 0.8, 1.0}) {
            if (const auto seconds =
                    planned_seconds(model, strategy, memory_request(config.memory), share, rates))
              shortest = std::min(shortest, *seconds);
          }
        }
      }
    }
  }
  return shortest;
}

TEST(CertificatesLongTest, AreBeatenByNoPlanOfASmallRun) {
  const Model model = tiny_model(1);
  const Strategy strategy = tiny_strategy(model, {.microbatches = 2});
  const Bytes least = Residency(lower_training(model, strategy), kDevicePair).needs().smallest;
  for (const bool cores_copy : {true, false}) {
    for (const Bytes percent : {100, 130, 200, 400}) {
      RunConfig config = tiny_config({.microbatches = 2});
      config.memory.device = align_up(least * percent / 100, kBufferAlignment);
      std::mt19937 random(7);
      MachineRates rates = random_rates(random);
      rates.cores_copy = cores_copy;
      const double shortest = shortest_step(model, config, strategy, rates);
      const double bound =
          certify(facts_of(model, strategy, rates), memory_request(config.memory).budgets(), rates).seconds;
      EXPECT_LE(bound, shortest * (1 + 1e-9)) << percent << cores_copy;
      fmt::print("device {} % of the least{}: the shortest of all is {:.1f} % above the bound\n", percent,
                 cores_copy ? ", cores copy" : "", 100 * (shortest / bound - 1));
    }
  }
}

TEST(CertificatesLongTest, FallWithBudgetsAndRates) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const RandomPlan plan = random_plan(random);
    const MachineRates rates = random_rates(random);
    const TierBudgets budgets = memory_request(plan.config.memory).budgets();
    const auto bound = [&](const TierBudgets& of, const MachineRates& by) {
      return certify(facts_of(plan.model, plan.strategy, by), of, by).seconds;
    };
    const double now = bound(budgets, rates) * (1 + 1e-4);
    for (const Tier tier : {Tier::device, Tier::host}) {
      TierBudgets more = budgets;
      if (more[tier] == kUnlimited) continue;
      more[tier] *= 2;
      EXPECT_LE(bound(more, rates), now) << seed;
    }
    for (double MachineRates::*rate :
         {&MachineRates::flops_per_second, &MachineRates::memory_bytes_per_second,
          &MachineRates::h2d_bytes_per_second, &MachineRates::d2h_bytes_per_second,
          &MachineRates::nvme_read_bytes_per_second}) {
      MachineRates faster = rates;
      faster.*rate *= 2;
      EXPECT_LE(bound(budgets, faster), now) << seed;
    }
  }
}

TEST(Certificates, CountWhatSmallMemoryMakesMove) {
  const Model model = tiny_model(6);
  const Strategy strategy = tiny_strategy(model, {.microbatches = 4});
  std::mt19937 random(3);
  const MachineRates rates = random_rates(random);
  const StepFacts facts = facts_of(model, strategy, rates);
  const Certificate roomy = certify(facts, {kUnlimited, kUnlimited, 0}, rates);
  const Certificate tight = certify(facts, {facts.turn, kUnlimited, 0}, rates);
  EXPECT_NEAR(roomy.alone[BoundArgument::h2d] * rates.h2d_bytes_per_second,
              4 * static_cast<double>(facts.data), 1);
  Bytes parameters = 0;
  for (const UnitFacts& unit : facts.units) parameters += unit.parameter;
  EXPECT_GT(tight.alone[BoundArgument::h2d] * rates.h2d_bytes_per_second,
            1.3 * static_cast<double>(parameters));
}

TEST(Certificates, OfPipelinesCountPassesOfTheLongestStage) {
  const Model model = tiny_model(4);
  RunConfig config = tiny_config({.microbatches = 4});
  config.parallel.pipeline = 2;
  std::mt19937 random(5);
  const MachineRates rates = random_rates(random);
  const std::vector<Plan> stages = make_plans(config, model, rates);
  const Certificate certificate = certify(stages, {{.name = "", .model = &model, .request = {}}}, rates);
  EXPECT_GT(certificate.seconds, 0);
  EXPECT_LE(certificate.seconds, estimate_step(stages, LaneMode::overlapped, rates).seconds);
}

}  // namespace
}  // namespace strata::test
