#include "tests/execute/gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <mutex>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/model/split_model.h"

namespace strata::test {
namespace {

class Watcher {
 public:
  Watcher(const Model& model, const RunConfig& config, int ranks)
      : model_(model), tensor_(config.parallel.tensor) {
    for (const Unit& unit : model_.units) {
      for (const TensorSpec& tensor : unit.tensors) {
        if (tensor.flat == Flat::trained)
          found_.gradients[tensor.hf_name].assign(static_cast<std::size_t>(tensor.elements), NAN);
      }
    }
    for (int rank = 0; rank < ranks; ++rank)
      devices_.push_back(std::make_unique<RoutingDevice>(CpuDeviceOptions{.threads = 1, .link = {}}));
  }

  RunOptions options(int rank) {
    RoutingDevice& device = *devices_[static_cast<std::size_t>(rank)];
    const std::int64_t part = rank % tensor_;
    return {.device = &device,
            .observer = [this, &device, part, own = split_model(model_, tensor_split(tensor_, part))](
                            const Instruction& instruction, Trainer& trainer) {
              const Routes routes = device.take_routes();
              const std::lock_guard lock(mutex_);
              if (instruction.operation == Operation::sum_of_squares)
                note_gradient(instruction, trainer, own.units);
              if (instruction.operation == Operation::forward && part == 0) {
                for (const std::vector<std::int32_t>& experts : routes)
                  ++found_.routes[instruction.unit][experts];
              }
            }};
  }
  Watched& found() { return found_; }

 private:
  void note_gradient(const Instruction& instruction, Trainer& trainer, const std::vector<Unit>& own) {
    const auto unit = static_cast<std::size_t>(instruction.unit);
    const FlatRange held = trainer.state().held(unit, Flat::trained);
    const std::span<const std::byte> bytes = trainer.state().read(instruction.find(Role::gradient));
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    for (const TensorRun& run : runs_in(own[unit], held)) {
      std::vector<float>& gradient = found_.gradients.at(run.tensor->hf_name);
      for (std::int64_t i = 0; i < run.count(); ++i) {
        float& value = gradient[static_cast<std::size_t>(run.first + i)];
        if (std::isnan(value)) value = values[run.at + i];
      }
    }
  }

  const Model& model_;
  std::int64_t tensor_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<RoutingDevice>> devices_;
  Watched found_;
};

}  // namespace

Watched watch(const Model& model, RunConfig config, int ranks) {
  config.plan.lanes = LaneMode::serial;
  Watcher watcher(model, config, ranks);
  watcher.found().state_hash =
      run_ranks(config, ranks, [&](int rank) { return watcher.options(rank); })[0].result.state_hash;
  return watcher.found();
}

void expect_equal_gradients(const Model& model, RunConfig alone, RunConfig config, int ranks) {
  for (RunConfig* run : {&alone, &config}) run->train.steps = 1;
  for (const auto& [name, difference] :
       relative_differences(watch(model, alone).gradients, watch(model, config, ranks).gradients))
    EXPECT_LE(difference, 1e-5) << name;
}

ComparedRuns expect_equal_runs(const RunConfig& alone, const RunConfig& config, int ranks) {
  ComparedRuns runs{run(alone), run_ranks(config, ranks)};
  const auto expect_equal = [](const auto& found, const auto& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i].loss, expected[i].loss, 1e-5 * expected[i].loss) << i;
  };
  EXPECT_EQ(std::ssize(runs.alone.result.steps), alone.train.steps);
  for (const RunOutcome& rank : runs.ranks) {
    expect_equal(rank.result.steps, runs.alone.result.steps);
    expect_equal(rank.result.validation, runs.alone.result.validation);
    EXPECT_EQ(rank.result.state_hash, runs.ranks.front().result.state_hash);
    expect_the_plan_was_exact(rank);
  }
  expect_equal_gradients(model_of(config), alone, config, ranks);
  return runs;
}

void expect_one_run_on_two_ranks(const RunConfig& alone) {
  for (const RunConfig& config : shared_by_two_ranks(alone)) {
    SCOPED_TRACE(layout_of(config));
    expect_equal_runs(alone, config, 2);
  }
}

void expect_equal_norms(const std::vector<RunOutcome>& ranks, const RunOutcome& alone) {
  for (const RunOutcome& rank : ranks) {
    for (std::size_t step = 0; step < alone.result.steps.size(); ++step) {
      const double norm = alone.result.steps[step].grad_norm;
      EXPECT_NEAR(rank.result.steps.at(step).grad_norm, norm, 1e-4 * norm) << step;
    }
  }
}

}  // namespace strata::test
