#include "engine/plan/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/plan/cost/timeline.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::tiny_config;
using test::tiny_model;
using ::testing::HasSubstr;

std::string config_error(const RunConfig& config, const Model& model) {
  try {
    make_plan(config, model);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Planner, KeepsEverythingOnTheDeviceWhereItFits) {
  const Model model = tiny_model();
  const ModelPlan plan = make_plan(tiny_config(), model);
  for (const Tier tier : plan.strategy.state) EXPECT_EQ(tier, Tier::device);
  EXPECT_EQ(plan.training.use[Tier::host].live_bytes,
            plan.training.use[Tier::host].by_kind[BufferKind::communication]);
}

TEST(Planner, MovesNoStateOffADeviceThatHoldsAllOfItToUpdateItOnTheHost) {
  Architecture a = tiny_model(12, false).architecture;
  a.hidden = 256;
  a.intermediate = 704;
  const Model model = build_model(a);
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
    RunConfig config = tiny_config();
    config.plan.order.reset();
    config.device.kind = kind;
    config.memory.device = make_plan(config, model).arena_bytes(Tier::device);
    for (const Tier tier : make_plan(config, model).strategy.state) EXPECT_EQ(tier, Tier::device);
  }
}

/// A Llama of 8 billion parameters on one H200 (examples/machines/h200.yaml): before other numbers of
/// activations are saved, the order is shorter that is longer with them.
TEST(PlannerLongTest, ChoosesTheOrderThatIsShortestWithWhatItSavesAtLast) {
  Architecture a = tiny_model(32, false, 128'256).architecture;
  a.hidden = 4096;
  a.heads = 32;
  a.kv_heads = 8;
  a.head_dimension = 128;
  a.intermediate = 14'336;
  a.max_positions = 8192;
  const Model model = build_model(a);
  RunConfig config = tiny_config({.precision = DType::bf16});
  config.device.kind = DeviceKind::cuda;
  config.train.batch = 8;
  config.train.microbatch = 4;
  config.train.recompute = Recompute::automatic;
  config.data.sequence_length = 2048;
  config.memory.device = 136 * GiB;
  config.memory.host = 119 * GiB;
  const MachineRates rates{.flops_per_second = 600e12,
                           .memory_bytes_per_second = 56e9,
                           .h2d_bytes_per_second = 55e9,
                           .d2h_bytes_per_second = 55e9,
                           .cores_copy = false};
  const auto seconds_in = [&](std::optional<Order> order) {
    config.plan.order = order;
    const ModelPlan plan = make_plan(config, model, rates);
    return simulated_seconds(plan.training.program, plan.training.dependencies, rates);
  };
  const double chosen = seconds_in({});
  EXPECT_LE(chosen, seconds_in(Order::layer_major) * 1.02);
  EXPECT_LE(chosen, seconds_in(Order::microbatch_major) * 1.02);
}

TEST(PlannerLongTest, HoldsEveryBudgetDownToTheSmallestAndNamesItBelow) {
  const Model model = tiny_model(4);
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    RunConfig config = tiny_config({.order = order});
    const Bytes resident = make_plan(config, model).arena_bytes(Tier::device);
    Bytes smallest = 0;
    for (Bytes budget = resident; budget > 0; budget -= resident / 23 + 1) {
      config.memory.device = budget;
      const std::string error = config_error(config, model);
      if (error != "no error") {
        const auto start = error.find('(') + 1;
        smallest = std::stoll(error.substr(start));
        break;
      }
      EXPECT_LE(make_plan(config, model).arena_bytes(Tier::device), budget);
    }
    ASSERT_GT(smallest, 0);
    config.memory.device = smallest;
    EXPECT_EQ(make_plan(config, model).arena_bytes(Tier::device), smallest);
    config.memory.device = smallest - 1;
    EXPECT_THAT(config_error(config, model), HasSubstr("the smallest that works"));
  }
}

TEST(Planner, ChoosesTheOrderThatMovesLess) {
  const Model model = tiny_model(4);
  RunConfig config = tiny_config({.microbatches = 6});
  config.memory.device = make_plan(config, model).arena_bytes(Tier::device) / 3;
  const auto moved = [&](std::optional<Order> order) {
    config.plan.order = order;
    const ModelPlan plan = make_plan(config, model);
    return plan.training.moved(Link::h2d) + plan.training.moved(Link::d2h);
  };
  EXPECT_EQ(moved(std::nullopt), std::min(moved(Order::layer_major), moved(Order::microbatch_major)));
}

TEST(Planner, RefusesARunWithoutHostMemoryThatTheDeviceDoesNotHold) {
  const Model model = tiny_model();
  RunConfig config = tiny_config();
  config.memory.host.reset();
  const Bytes resident = make_plan(config, model).arena_bytes(Tier::device);
  config.memory.device = resident / 2;
  EXPECT_NE(config_error(config, model), "no error");
  EXPECT_THAT(config_error(config, model), HasSubstr("memory.host"));
}

TEST(Planner, GivesTheDeviceMoreStateThanIsCheapWhereTheHostHasNoRoomForIt) {
  const Model model = tiny_model(8, false);
  RunConfig config = tiny_config();
  config.memory.device = make_plan(config, model).arena_bytes(Tier::device) / 2;
  const auto units = [&](const ModelPlan& plan) {
    return std::count(plan.strategy.state.begin(), plan.strategy.state.end(), Tier::device);
  };
  const ModelPlan roomy = make_plan(config, model);
  config.memory.host = tier_use(roomy.training.program, Tier::host).live_bytes - kBufferAlignment;
  const ModelPlan tight = make_plan(config, model);
  EXPECT_GT(units(tight), units(roomy));
  EXPECT_LE(tight.arena_bytes(Tier::device), config.memory.device);
  EXPECT_LE(tight.arena_bytes(Tier::host), *config.memory.host);
}

TEST(Planner, RefusesAHostBudgetThatIsTooSmallAndNamesTheNeed) {
  const Model model = tiny_model();
  RunConfig config = tiny_config();
  config.memory.device = make_plan(config, model).arena_bytes(Tier::device) / 2;
  config.memory.host = 1024;
  EXPECT_THAT(config_error(config, model), HasSubstr("memory.host: 1.00 KiB is too small"));
}

TEST(PlannerLongTest, HoldsTheHostBudgetInValidationToo) {
  const Model model = tiny_model();
  RunConfig config = tiny_config();
  config.memory.device = make_plan(config, model).arena_bytes(Tier::device) / 4;
  config.plan.order = Order::layer_major;
  config.memory.host = make_plan(config, model).arena_bytes(Tier::host);
  config.train.validate_every = 1;
  config.train.validation_batches = 300;  // whose activations, all at once, are more than training's
  config.memory.host = *config.memory.host + 300 * 3 * kBufferAlignment;  // their tokens, targets and losses
  EXPECT_LE(make_plan(config, model).arena_bytes(Tier::host), *config.memory.host);
  config.memory.host = 1024;
  const std::string error = config_error(config, model);
  config.memory.host = std::stoll(error.substr(error.find('(') + 1));
  EXPECT_EQ(make_plan(config, model).arena_bytes(Tier::host), *config.memory.host);
}

TEST(Planner, CountsFlopsOfRecomputation) {
  const Model model = tiny_model();
  const ModelPlan recomputed = make_plan(tiny_config({.save = false}), model);
  const ModelPlan saved = make_plan(tiny_config({.save = true}), model);
  // What executes beyond the model's FLOPs without recomputation: attention's probabilities, once more in its
  // backward.
  EXPECT_NEAR(saved.flops.executed / saved.flops.model, 1, 0.03);
  EXPECT_GT(recomputed.flops.executed, 1.2 * saved.flops.executed);
  EXPECT_DOUBLE_EQ(recomputed.flops.model, saved.flops.model);
}

/// Wide enough that computing takes longer than copies.
Model wide_model(std::int64_t layers) {
  Architecture a = tiny_model(layers).architecture;
  a.hidden = a.intermediate = 256;
  a.heads = a.kv_heads = 16;
  a.head_dimension = 16;
  return build_model(a);
}

TEST(PlannerLongTest, KeepsActivationsOfMoreBlocksWithMoreMemoryAndMovesNoMoreForIt) {
  const Model model = wide_model(6);
  RunConfig config = tiny_config({.microbatches = 4});
  config.data.sequence_length = 512;
  config.train.microbatch = 4;
  config.train.batch = 16;
  config.device.h2d_per_second = config.device.d2h_per_second = 1'000'000'000;
  const Bytes recomputed = make_plan(config, model).arena_bytes(Tier::device);
  config.train.recompute = Recompute::automatic;
  const auto saved = [](const ModelPlan& plan) {
    return std::ranges::count_if(plan.strategy.saved_level, [](std::size_t level) { return level > 0; });
  };
  const auto levels = [](const ModelPlan& plan) {
    return std::accumulate(plan.strategy.saved_level.begin(), plan.strategy.saved_level.end(),
                           std::size_t{0});
  };
  const ModelPlan unlimited = make_plan(config, model);
  EXPECT_EQ(saved(unlimited), 6);
  std::ptrdiff_t before = 6;
  bool some_in_between = false;
  for (Bytes budget = unlimited.arena_bytes(Tier::device); budget > recomputed / 5;
       budget -= recomputed / 11) {
    config.memory.device = budget;
    const ModelPlan plan = make_plan(config, model);
    EXPECT_LE(saved(plan), before);
    before = saved(plan);
    some_in_between |= levels(plan) > 0 && levels(plan) < levels(unlimited);
  }
  EXPECT_TRUE(some_in_between);
  EXPECT_LT(before, 6);
}

TEST(PlannerLongTest, SavesSomeTensorsOfABlockIfTheLinkHasTimeForSome) {
  const Model model = wide_model(4);
  RunConfig config = tiny_config({.microbatches = 4});
  config.data.sequence_length = 512;
  config.train.microbatch = 4;
  config.train.batch = 32;
  config.train.recompute = Recompute::automatic;
  const ModelPlan unlimited = make_plan(config, model);
  config.memory.device = unlimited.arena_bytes(Tier::device) / 4;
  std::set<std::size_t> levels;
  double flops = unlimited.flops.executed;
  for (double rate = 1e11; rate > 1e6; rate /= 1.5) {
    config.device.h2d_per_second = config.device.d2h_per_second = static_cast<Bytes>(rate);
    const ModelPlan plan = make_plan(config, model);
    EXPECT_GE(plan.flops.executed, flops) << rate;
    flops = plan.flops.executed;
    levels.insert(plan.strategy.saved_level.begin() + 1, plan.strategy.saved_level.end() - 1);
  }
  EXPECT_EQ(levels, (std::set<std::size_t>{0, 1, 2, 3, 4}));
}

/// All gradients are on the host when the norm is known. By then the drive should have read all else that
/// fits, although the following sweep of updates is fragmented.
TEST(Planner, ReadsStateAheadIntoTheRoomThatGradientsLeave) {
  Architecture a;
  a.model_type = "gpt2";
  a.family = Family::gpt2;
  a.layers = 24;
  a.hidden = 1024;
  a.heads = a.kv_heads = 16;
  a.head_dimension = 64;
  a.intermediate = 4096;
  a.vocabulary = 50257;
  a.max_positions = 1024;
  a.tied_head = true;
  RunConfig config = tiny_config({.precision = DType::fp32, .microbatches = 1});
  config.data.sequence_length = 256;
  config.memory.device = 1 * GiB;
  config.memory.host = 3 * GiB;
  config.memory.nvme_path = {"/nvme"};
  config.memory.optimizer_state = TierChoice::nvme;
  const ModelPlan plan = make_plan(config, build_model(a));
  const Program& program = plan.training.program;
  const auto norm = static_cast<std::int32_t>(
      std::ranges::find(program.instructions, Operation::grad_norm, &Instruction::operation) -
      program.instructions.begin());
  const std::vector<Lifetime> live = lifetimes(program);
  Bytes state = 0, others = 0;
  for (std::size_t b = 0; b < live.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier != Tier::host || live[b].first > norm || live[b].last < norm) continue;
    (buffer.kind == BufferKind::optimizer_state ? state : others) += buffer.bytes;
  }
  EXPECT_GT(state, 3 * (*config.memory.host - others) / 4);
}

TEST(PlannerLongTest, PlansSeventyBillionParametersWithoutTouchingThem) {
  Architecture a;
  a.model_type = "llama";
  a.family = Family::llama;
  a.layers = 80;
  a.hidden = 8192;
  a.heads = 64;
  a.kv_heads = 8;
  a.head_dimension = 128;
  a.intermediate = 28672;
  a.vocabulary = 128256;
  a.max_positions = 8192;
  const Model model = build_model(a);
  RunConfig config;
  config.train.precision = DType::bf16;
  config.train.batch = 16;
  config.train.microbatch = 1;
  config.data.sequence_length = 4096;
  config.train.recompute = Recompute::full;
  config.memory.device = 80 * GiB;
  config.memory.host = 2048 * GiB;
  const ModelPlan plan = make_plan(config, model);
  EXPECT_NEAR(static_cast<double>(plan.parameters), 70.55e9, 0.1e9);
  // Layer-major: parameters come twice and gradients leave once, 2 bytes each, whatever the number of
  // microbatches; at most all unit boundaries leave and return once (checkpoints in the forward, their
  // gradients in the backward pass).
  const double parameter_bytes = 2 * static_cast<double>(plan.parameters);
  const double boundary_bytes = 2.0 * 16 * 4096 * 8192 * 81;
  EXPECT_LT(static_cast<double>(plan.training.moved(Link::h2d)), 2.01 * parameter_bytes + 2 * boundary_bytes);
  EXPECT_LT(static_cast<double>(plan.training.moved(Link::d2h)), 1.01 * parameter_bytes + 2 * boundary_bytes);
}

/// A device that computes and copies fast, beside a host whose memory and drives are slow.
const MachineRates kFastDevice = {.flops_per_second = 1e12,
                                  .memory_bytes_per_second = 1e8,
                                  .h2d_bytes_per_second = 1e10,
                                  .d2h_bytes_per_second = 1e10,
                                  .nvme_read_bytes_per_second = 1e7,
                                  .nvme_write_bytes_per_second = 1e7,
                                  .cores_copy = false};

/// Six blocks, as wide as that.
Model model_of_width(std::int64_t hidden, std::int64_t vocabulary = 40) {
  Architecture a = tiny_model(6, false).architecture;
  a.hidden = hidden;
  a.intermediate = hidden * 11 / 4;
  a.vocabulary = vocabulary;
  return build_model(a);
}

double seconds_of(const ModelPlan& plan, const MachineRates& rates) {
  return simulated_seconds(plan.training.program, plan.training.dependencies, rates);
}

std::size_t units_on_device(const ModelPlan& plan) {
  return static_cast<std::size_t>(std::ranges::count(plan.strategy.state, Tier::device));
}

TEST(Planner, RecomputesNothingWhereTheDeviceHoldsAll) {
  const Model model = model_of_width(64);
  RunConfig config = tiny_config();
  config.plan.order.reset();
  config.train.recompute = Recompute::automatic;
  MachineRates slow_link = kFastDevice;  // were state on the host, its copies would hide all computing
  slow_link.flops_per_second = 1e10;
  slow_link.h2d_bytes_per_second = slow_link.d2h_bytes_per_second = 2e7;
  const ModelPlan plan = make_plan(config, model, slow_link);
  EXPECT_LT(plan.flops.executed, 1.01 * plan.flops.model);
  config.memory.device = plan.arena_bytes(Tier::device);
  const ModelPlan same = make_plan(config, model, slow_link);
  EXPECT_LT(same.flops.executed, 1.01 * same.flops.model);
  EXPECT_EQ(units_on_device(same), model.units.size());
}

TEST(Planner, KeepsMoreStateNearWhereUpdatesOnTheHostTakeLonger) {
  const Model model = model_of_width(64);
  RunConfig config = tiny_config();
  config.memory.device = make_plan(config, model, kFastDevice).arena_bytes(Tier::device) * 2 / 5;
  MachineRates fast_host = kFastDevice, slow_host = kFastDevice;
  fast_host.memory_bytes_per_second = 1e12;
  slow_host.memory_bytes_per_second = 1e7;
  const ModelPlan by_fast = make_plan(config, model, fast_host),
                  by_slow = make_plan(config, model, slow_host);
  EXPECT_GT(units_on_device(by_slow), units_on_device(by_fast));
  EXPECT_LT(seconds_of(by_slow, slow_host), seconds_of(by_fast, slow_host));
}

TEST(Planner, KeepsStateOfBlocksNearWhereTheEmbeddingsIsTooLarge) {
  const Model model = model_of_width(64, 8192);
  RunConfig config = tiny_config();
  config.memory.device = make_plan(config, model, kFastDevice).arena_bytes(Tier::device) / 3;
  MachineRates slow_host = kFastDevice;
  slow_host.memory_bytes_per_second = 1e7;
  const ModelPlan plan = make_plan(config, model, slow_host);
  EXPECT_EQ(plan.strategy.state.front(), Tier::host);
  EXPECT_GT(units_on_device(plan), 0U);
}

TEST(Planner, LetsForwardPassesBeginWhileUpdatesOfTheStepBeforeAreMade) {
  const Model model = model_of_width(512);
  RunConfig config = tiny_config();
  config.memory.device = make_plan(config, model, kFastDevice).arena_bytes(Tier::device) / 3;
  MachineRates rates = kFastDevice;
  rates.memory_bytes_per_second = 1e8;  // updates take longest
  const ModelPlan plan = make_plan(config, model, rates);
  const RankProgram rank = {0, &plan.training.program, &plan.training.dependencies};
  const RoundTimeline round = simulate_round({&rank, 1}, rates).front();
  double first_pass = round.seconds, last_update = 0;
  for (std::size_t i = 0; i < round.instructions.size(); ++i) {
    const Instruction& instruction = plan.training.program.instructions[i];
    const InstructionTime& time = round.instructions[i];
    if (instruction.operation == Operation::forward) first_pass = std::min(first_pass, time.start);
    if (instruction.operation == Operation::update) last_update = std::max(last_update, time.end);
  }
  EXPECT_GT(last_update, first_pass + 1.2 * round.seconds);  // of the next step
}

TEST(PlannerLongTest, RecomputesRatherThanSendActivationsToDrives) {
  const Model model = model_of_width(64);
  RunConfig config = tiny_config({.microbatches = 8});
  config.plan.order.reset();
  config.data.sequence_length = 64;
  config.train.recompute = Recompute::automatic;
  const Bytes roomy = make_plan(config, model, kFastDevice).arena_bytes(Tier::device);
  config.memory.device = config.memory.host.emplace(roomy / 3) / 3;
  config.memory.nvme_path = {"drive"};
  config.memory.nvme_size = kUnlimited;
  const auto on_drives = [](const ModelPlan& plan) {
    Bytes bytes = 0;
    for (const Buffer& buffer : plan.training.program.buffers) {
      if (buffer.tier == Tier::nvme && buffer.kind == BufferKind::activation) bytes += buffer.bytes;
    }
    return bytes;
  };
  RunConfig saving = config;
  saving.train.recompute = Recompute::none;
  while (on_drives(make_plan(saving, model, kFastDevice)) == 0)
    *saving.memory.host -= *saving.memory.host / 16;
  config.memory.host = saving.memory.host;
  const ModelPlan plan = make_plan(config, model, kFastDevice);
  EXPECT_EQ(on_drives(plan), 0);
  EXPECT_LT(seconds_of(plan, kFastDevice), seconds_of(make_plan(saving, model, kFastDevice), kFastDevice));
}

}  // namespace
}  // namespace strata
