// Plans of several models: exact, within the budgets that they share, and refused with a sentence if these do
// not hold them.
#include "engine/plan/merge/joint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::tiny_config;
using test::tiny_model;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

/// Models with one budget.
class Models {
 public:
  RunConfig& add(Model model, const test::StrategyOptions& options = {}) {
    members_.push_back(std::make_unique<Member>(
        Member{"m" + std::to_string(members_.size()), tiny_config(options), std::move(model)}));
    members_.back()->config.plan.order.reset();
    return members_.back()->config;
  }

  std::size_t size() const { return members_.size(); }
  const RunConfig& config(std::size_t m) const { return members_[m]->config; }
  const Model& model(std::size_t m) const { return members_[m]->model; }

  void set_memory(const MemorySection& memory) {
    for (const auto& member : members_) member->config.memory = memory;
  }

  JointPlanner planner() const {
    std::vector<ConfiguredModel> models;
    for (const auto& member : members_) models.push_back({member->name, &member->config, &member->model});
    return {models_to_plan(models), planning_rates(config(0))};
  }
  Plan plan() const { return planner().plan(std::vector<std::int64_t>(size(), 3)).front(); }
  std::string refusal() const {
    try {
      plan();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

 private:
  struct Member {
    std::string name;
    RunConfig config;
    Model model;
  };
  std::vector<std::unique_ptr<Member>> members_;
};

/// Makes models of several sizes. Two of them validate.
Models mixed_models() {
  Models models;
  models.add(tiny_model(3, true));
  models.add(tiny_model(2, false), {.precision = DType::fp32, .microbatches = 2});
  models.add(tiny_model(1, true, 40, {"model.embed_tokens.*"}), {.precision = DType::fp16});
  RunConfig& validates = models.add(tiny_model(4, true, 80), {.clips = false});
  validates.train.validate_every = 2;
  validates.train.validation_batches = 2;
  validates.data.validation = {"validation.txt"};
  return models;
}

MemorySection memory_of(Bytes device, std::optional<Bytes> host, Bytes nvme = 0) {
  MemorySection memory = tiny_config().memory;
  memory.device = device;
  memory.host = host;
  if (nvme > 0) memory.nvme_path = {"drive"};
  memory.nvme_size = nvme;
  return memory;
}

/// The hungriest model's smallest budget, and what is on the device for each of the others all the time.
Bytes smallest_device(Models& models) {
  Bytes smallest = 0, constants = 0;
  for (std::size_t m = 0; m < models.size(); ++m) {
    RunConfig config = models.config(m);
    config.memory = memory_of(1, kUnlimited);
    config = test::with_named_budgets(config, test::refusal(config, models.model(m)));
    Bytes own = 0;
    const Program program = make_plan(config, models.model(m)).training.program;
    for (const Buffer& buffer : program.buffers) {
      if (*buffer.name == "constants") own += buffer.bytes;
    }
    smallest = std::max(smallest, config.memory.device - own);
    constants += own;
  }
  return smallest + constants;
}

void expect_exact(const Models& models, const Plan& plan) {
  const MemorySection& memory = models.config(0).memory;
  EXPECT_LE(plan.arena_bytes(Tier::device), memory.device);
  EXPECT_LE(plan.arena_bytes(Tier::host), memory.host.value_or(kUnlimited));
  EXPECT_LE(plan.arena_bytes(Tier::nvme), memory.nvme_size);
  for (const Tier tier : kTiers) {
    for (const std::optional<ModelPlan>& part : plan.models) {
      EXPECT_LE(part->training.use[tier].live_bytes, plan.training().use[tier].live_bytes);
      EXPECT_LE(part->training.use[tier].peak_bytes, plan.training().use[tier].peak_bytes);
    }
  }
  for (const Link link : kLinks) {
    Bytes moved = 0;
    for (const std::optional<ModelPlan>& part : plan.models) moved += part->training.moved(link);
    EXPECT_EQ(plan.training().moved(link), moved) << name_of(link);
  }
  std::size_t instructions = 0;
  for (const std::optional<ModelPlan>& part : plan.models)
    instructions += part->training.program.instructions.size();
  EXPECT_EQ(instructions, plan.training().program.instructions.size());
  EXPECT_EQ(std::ranges::count(plan.merged->sequences, true, &ComparedSequence::is_chosen), 1);
  EXPECT_GE(plan.merged->round_seconds, plan.merged->computing_seconds);
}

/// State is where it is in the other program.
void expect_the_same_places(const Program& training, const Program& validation) {
  std::map<std::string, Buffer> places;
  for (const Buffer& buffer : training.buffers) {
    if (buffer.persistent) places[*buffer.name] = buffer;
  }
  for (const Buffer& buffer : validation.buffers) {
    if (buffer.persistent) {
      EXPECT_EQ(places.at(*buffer.name), buffer) << *buffer.name;
    }
  }
  EXPECT_EQ(training.state.size(), validation.state.size());
}

// Invariant (JointPlans*.*): Several models are their runs alone.
TEST(JointPlansLongTest, AreExactWithinEveryBudget) {
  Models models = mixed_models();
  const Bytes smallest = smallest_device(models);
  const Bytes state = 220 * KiB;
  for (const MemorySection& memory :
       {memory_of(kUnlimited, kUnlimited), memory_of(2 * smallest, kUnlimited),
        memory_of(smallest, kUnlimited), memory_of(smallest, state, 8 * MiB),
        memory_of(4 * smallest, state / 2, 8 * MiB), memory_of(kUnlimited, std::nullopt)}) {
    SCOPED_TRACE(memory.device);
    models.set_memory(memory);
    const Plan plan = models.plan();
    expect_exact(models, plan);
    ASSERT_TRUE(plan.interludes().contains(Interlude::validation));
    expect_the_same_places(plan.training().program, plan.interludes().at(Interlude::validation).program);
    for (std::size_t m = 0; m < models.size(); ++m)
      EXPECT_EQ(!plan.models[m]->interludes.empty(), models.config(m).train.validate_every > 0);
  }
}

// Invariant: Turns leave the device to others.
TEST(JointPlans, NeedTheDeviceOnlyForTheHungriestModel) {
  Models models = mixed_models();
  const Bytes smallest = smallest_device(models);
  models.set_memory(memory_of(smallest, kUnlimited));
  EXPECT_EQ(models.refusal(), "");
  models.set_memory(memory_of(smallest - kBufferAlignment, kUnlimited));
  EXPECT_THAT(models.refusal(), HasSubstr("memory.device"));
}

TEST(JointPlans, TakeNoMoreModelsThanHaveStepsLeft) {
  Models models = mixed_models();
  models.set_memory(memory_of(256 * KiB, kUnlimited));
  JointPlanner planner = models.planner();
  const Plan all = planner.plan({4, 4, 4, 4}).front(), two = planner.plan({0, 2, 0, 1}).front();
  EXPECT_LT(two.merged->computing_seconds, all.merged->computing_seconds);
  for (const std::size_t m : {0, 2}) EXPECT_FALSE(two.models[m]);
  for (const std::size_t m : {1, 3}) EXPECT_TRUE(two.models[m]);
  for (const Buffer& buffer : two.training().program.buffers) {
    EXPECT_THAT(*buffer.name, MatchesRegex("m[13]/.*"));
  }
  const Plan one = planner.plan({0, 0, 5, 0}).front();
  EXPECT_TRUE(one.interludes().empty());
  EXPECT_EQ(one.models[2]->training.program.instructions.size(), one.training().program.instructions.size());
}

TEST(JointPlans, HaveOneStrategyForModelsThatDifferInNumbersAlone) {
  Models models;
  for (int m = 0; m < 4; ++m) {
    RunConfig& config = models.add(tiny_model());
    config.optimizer.learning_rate = 1e-3 * m;
    config.train.seed = static_cast<std::uint64_t>(m);
    config.train.steps = 10 + m;
  }
  models.set_memory(memory_of(128 * KiB, kUnlimited));
  const Plan plan = models.plan();
  const Strategy& first = plan.models.front()->strategy;
  const auto printed = [&](std::size_t m) {
    Program part = plan.models[m]->training.program;
    std::int64_t passes = 0;
    for (const Instruction& instruction : part.instructions) passes += instruction.flops > 0;
    return passes;
  };
  for (std::size_t m = 1; m < models.size(); ++m) {
    const Strategy& own = plan.models[m]->strategy;
    EXPECT_EQ(own.order, first.order);
    EXPECT_EQ(own.saved_level, first.saved_level);
    EXPECT_EQ(own.state, first.state);
    EXPECT_EQ(printed(m), printed(0));
  }
}

TEST(JointPlans, HaveTheOrderThatIsAskedFor) {
  Models models = mixed_models();
  models.set_memory(memory_of(256 * KiB, kUnlimited));
  for (const std::string order :
       {"step after step", "longest remaining time first", "staggered, 4 under way"}) {
    const Plan plan = models.planner().plan({1, 2, 3, 4}, order).front();
    for (const ComparedSequence& compared : plan.merged->sequences) EXPECT_EQ(compared.name, order);
  }
}

TEST(JointPlans, AreTheSameEachTime) {
  Models models = mixed_models();
  models.set_memory(memory_of(128 * KiB, kUnlimited));
  EXPECT_EQ(print(models.plan().training().program), print(models.plan().training().program));
}

TEST(JointRefusalsLongTest, NameTheBudgetThatHoldsEachModelButNotAll) {
  Models models;
  for (int m = 0; m < 3; ++m) models.add(tiny_model());
  RunConfig config = models.config(0);
  config.memory = memory_of(1, kUnlimited);
  const Bytes device = test::with_named_budgets(config, test::refusal(config, models.model(0))).memory.device;
  models.set_memory(memory_of(device, kUnlimited));
  EXPECT_THAT(models.refusal(), HasSubstr("memory.device"));
  EXPECT_THAT(models.refusal(), HasSubstr("3 models"));
  models.set_memory(test::with_named_budgets(models.config(0), models.refusal()).memory);
  EXPECT_EQ(models.refusal(), "");
  EXPECT_EQ(models.config(0).memory.device, smallest_device(models));

  config.memory = memory_of(2 * device, 1);
  const Bytes host = *test::with_named_budgets(config, test::refusal(config, models.model(0))).memory.host;
  models.set_memory(memory_of(2 * device, host));
  EXPECT_THAT(models.refusal(), HasSubstr("memory.host: the state of 3 models needs"));

  models.set_memory(memory_of(2 * device, 128 * KiB, host));
  EXPECT_THAT(models.refusal(), HasSubstr("memory.nvme.size: the state of 3 models needs"));
}

TEST(JointRefusals, NameADeviceThatHoldsModelsOfAllKinds) {
  Models models = mixed_models();
  const Bytes smallest = smallest_device(models);
  models.set_memory(memory_of(smallest - kBufferAlignment, kUnlimited));
  models.set_memory(test::with_named_budgets(models.config(0), models.refusal()).memory);
  EXPECT_EQ(models.refusal(), "");
  EXPECT_EQ(models.config(0).memory.device, smallest);

  // Without a host tier all state stays on the device.
  models.set_memory(memory_of(2 * smallest, std::nullopt));
  const std::string refusal = models.refusal();
  EXPECT_THAT(refusal, HasSubstr("4 models"));
  models.set_memory(test::with_named_budgets(models.config(0), refusal).memory);
  EXPECT_EQ(models.refusal(), "");
}

/// What is frozen of three models has the room of one's.
TEST(JointRefusals, CountWhatModelsShareOnce) {
  const auto smallest_of = [](const std::string& folder) {
    Models models;
    for (int m = 0; m < 3; ++m) models.add(tiny_model(3, true, 40, {"model.layers.*"})).model.path = folder;
    models.set_memory(memory_of(1 * KiB, std::nullopt));
    RunConfig config = models.config(0);
    const Bytes alone =
        test::with_named_budgets(config, test::refusal(config, models.model(0))).memory.device;
    models.set_memory(memory_of(alone, std::nullopt));
    models.set_memory(test::with_named_budgets(models.config(0), models.refusal()).memory);
    EXPECT_EQ(models.refusal(), "");
    return models.config(0).memory.device;
  };
  EXPECT_LT(smallest_of("folder"), smallest_of(""));
}

TEST(JointRefusals, OfAModelThatHasNoRoomAloneAreItsOwn) {
  Models models = mixed_models();
  models.set_memory(memory_of(4 * KiB, kUnlimited));
  EXPECT_THAT(models.refusal(), HasSubstr("the smallest that works is"));
}

}  // namespace
}  // namespace strata
