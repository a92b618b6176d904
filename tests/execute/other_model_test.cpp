// A model that reads no text and predicts no words trains like any other: numbers and categories go in, two
// numbers come out, and the loss is the mean squared error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/random.h"
#include "engine/config/run_config.h"
#include "engine/device/activation.h"
#include "engine/device/scratch_rules.h"
#include "engine/model/graph/derivation.h"
#include "engine/model/graph/unit_builder.h"
#include "engine/model/model.h"
#include "tests/execute/support.h"

namespace strata::test {
namespace {

constexpr std::int64_t kFeatures = 6, kHidden = 32, kCategories = 2000, kOutputs = 2;

/// losses = (predictions - labels)²; with a gradient behind them, in place of the predictions, that of the
/// mean of all. For a device whose memory is the host's.
class SquaredErrorRule final : public Operator {
 public:
  enum : int { predictions, labels, losses, loss_scale };

  explicit SquaredErrorRule(bool gradient = false) : gradient_(gradient) {}

  std::string_view name() const override { return "squared_error"; }
  Touches touches() const override { return {Touch::updates, Touch::reads, Touch::writes, Touch::reads}; }
  std::string_view axes() const override { return "t c, t c, t c, 1 1"; }
  void run(Kernels& kernels, const Operands& operands) const override {
    if (dynamic_cast<ScratchMeter*>(&kernels) != nullptr) return;  // there is no memory
    const Matrix &x = operands[predictions], &wanted = operands[labels], &out = operands[losses];
    const Matrix& scale = operands[loss_scale];
    for (std::int64_t row = 0; row < x.rows; ++row) {
      for (std::int64_t column = 0; column < x.columns; ++column) {
        float& predicted = x.row<float>(row)[column];
        const float error = predicted - wanted.row<float>(row)[column];
        out.row<float>(row)[column] = error * error;
        if (gradient_) predicted = 2 * error * operands.loss_factor() * (scale ? *scale.row<float>(0) : 1);
      }
    }
  }
  void differentiate(const Node& node, Derivation& derivation) const override {
    const TensorView scale = derivation.add({"loss_scale", TensorType::fp32, {}, {}, Region::loss_scale});
    derivation.add(std::make_shared<SquaredErrorRule>(true),
                   {node[predictions], node[labels], node[losses], scale});
    derivation.pass(node[predictions], node[predictions]);
  }

 private:
  bool gradient_;
};

Model regression() {
  Model model;
  const Axis hidden("hidden", kHidden), outputs("outputs", kOutputs);
  const auto add = [&](UnitBuilder& builder) {
    UnitBuilder::Built built = builder.finish();
    built.unit.kind = model.graphs.size();
    model.passes.push_back(derive(built.graph));
    model.graphs.push_back(std::move(built.graph));
    model.units.push_back(std::move(built.unit));
  };
  UnitBuilder table("table", "");
  const TensorView categories = table.data(1, "categories", TensorType::int32, {}, token_axis());
  table.output(table.embedding(categories, "table.weight", {"categories", kCategories}, hidden));
  add(table);
  UnitBuilder middle("middle", "");
  const TensorView features =
      middle.data(0, "features", TensorType::fp32, token_axis(), {"features", kFeatures});
  const TensorView sum =
      middle.add(middle.input(hidden), middle.linear(middle.cast(features), {{"features", hidden}}));
  middle.output(middle.activate(middle.linear(sum, {{"inner", hidden}}, {.bias = true}), Activation::silu));
  add(middle);
  UnitBuilder last("last", "");
  const TensorView predicted = last.linear(last.input(hidden), {{"outputs", outputs}}, {.bias = true});
  const TensorView labels = last.data(2, "labels", TensorType::fp32, token_axis(), outputs);
  const TensorView losses = last.tensor({"losses", TensorType::fp32, token_axis(), outputs, Region::losses});
  last.node(std::make_shared<SquaredErrorRule>(), {predicted, labels, losses, {}});
  add(last);
  model.architecture.initializer_range = 0.3;
  return model;
}

/// Samples of a function that can be learned; every step brings the same ones.
void fill(std::int64_t microbatch, const MicrobatchData& data) {
  const auto features = data.array<float>(0), labels = data.array<float>(2);
  const auto categories = data.array<std::int32_t>(1);
  ASSERT_EQ(features.size(), categories.size() * kFeatures);
  ASSERT_EQ(labels.size(), categories.size() * kOutputs);
  const CounterRandom random(static_cast<std::uint64_t>(microbatch), 5);
  for (std::size_t i = 0; i < features.size(); ++i) features[i] = random.normal(i);
  for (std::size_t t = 0; t < categories.size(); ++t) {
    categories[t] = static_cast<std::int32_t>(37 * t % 50);
    const float* x = &features[t * kFeatures];
    labels[t * kOutputs] = x[0] - x[1] + static_cast<float>(categories[t] % 2);
    labels[t * kOutputs + 1] = 0.5F * x[2];
  }
}

RunOutcome train(const Model& model, const RunConfig& config, Communicator* world = nullptr) {
  RunOutcome outcome{.plan = make_plan(config, model), .result = {}};
  CpuDevice device({.threads = 2, .link = {}});
  TrainingData data;
  data.training = [](std::int64_t, std::int64_t microbatch, const MicrobatchData& arrays) {
    fill(microbatch, arrays);
  };
  data.validation = data.training;
  data.sampler = [](std::int64_t) { return nlohmann::json(); };
  Trainer trainer({{config, model, data}}, outcome.plan, device, {.fresh = true, .world = world});
  const std::atomic<bool> never = false;
  TrainListener silent;
  outcome.result = trainer.train(never, silent);
  return outcome;
}

RunConfig run_file(const TemporaryFolder& folder) {
  RunConfig config = tiny_run(folder.path());
  config.train.precision = DType::fp32;
  config.train.steps = 30;
  config.train.validate_every = 30;
  config.train.validation_batches = 2;
  config.data.sequence_length = 4;
  return config;
}

TEST(OtherModel, LearnsWithTheSameBitsAtEveryPlacement) {
  const TemporaryFolder folder;
  const Model model = regression();
  RunConfig config = run_file(folder);
  const RunOutcome resident = train(model, config);
  const std::vector<StepReport>& steps = resident.result.steps;
  ASSERT_EQ(steps.size(), 30U);
  EXPECT_LT(steps.back().loss, 0.2 * steps.front().loss);
  EXPECT_EQ(resident.plan.training().program.loss_terms, 6 * 4 * kOutputs);
  ASSERT_FALSE(resident.result.validation.empty());

  config.memory.device = kUnlimited;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    config.plan.order = order;
    config.memory.device = resident.plan.training().use[Tier::device].peak_bytes * 2 / 3;
    const RunOutcome tight = train(model, config);
    EXPECT_LT(tight.plan.arena_bytes(Tier::device), resident.plan.arena_bytes(Tier::device));
    EXPECT_EQ(tight.result.state_hash, resident.result.state_hash);
    EXPECT_EQ(tight.result.validation.back().loss, resident.result.validation.back().loss);
  }
}

TEST(OtherModel, SendsRowsOfItsTableBetweenRanks) {
  const TemporaryFolder folder;
  const Model model = regression();
  RunConfig config = run_file(folder);
  const RunOutcome alone = train(model, config);
  config.parallel.data = 3;
  const auto worlds = make_thread_communicators(3, {});
  std::vector<RunOutcome> ranks(3);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] { ranks[rank] = train(model, config, worlds[rank].get()); });
  for (std::thread& thread : threads) thread.join();
  const auto& instructions = ranks[0].plan.training().program.instructions;
  EXPECT_TRUE(std::ranges::any_of(instructions, [](const Instruction& instruction) {
    return instruction.operation == Operation::sum_rows && instruction.unit == 0;
  }));
  for (const RunOutcome& rank : ranks)
    for (std::size_t step = 0; step < alone.result.steps.size(); ++step)
      EXPECT_NEAR(rank.result.steps[step].loss, alone.result.steps[step].loss,
                  1e-4 * alone.result.steps[step].loss);
}

}  // namespace
}  // namespace strata::test
