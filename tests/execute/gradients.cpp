#include "tests/execute/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "engine/model/split_model.h"

namespace strata::test {
namespace {

/// Flat gradients of the first step, by unit, put together from what each rank updates with.
class Gradients {
 public:
  explicit Gradients(const Model& model) : model_(model) {
    for (const Unit& unit : model.units) units_.emplace_back(static_cast<std::size_t>(unit.elements), NAN);
  }

  /// Those of a rank that has part number `part` of each layer, of `parts`.
  RunOptions options(std::int64_t parts = 1, std::int64_t part = 0) {
    return {.observer = [this, own = split_model(model_, tensor_split(parts, part))](
                            const Instruction& instruction, Trainer& trainer) {
      look(instruction, trainer, own.units);
    }};
  }
  const std::vector<std::vector<float>>& units() const { return units_; }

 private:
  void look(const Instruction& instruction, Trainer& trainer, const std::vector<Unit>& own) {
    if (instruction.operation != Operation::sum_of_squares) return;
    const auto unit = static_cast<std::size_t>(instruction.unit);
    const FlatRange held = trainer.state().held(unit, Flat::trained);
    const std::span<const std::byte> bytes = trainer.state().read(instruction.find(Role::gradient));
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    const std::lock_guard lock(mutex_);
    for (const TensorRun& run : runs_in(own[unit], held)) {
      const TensorSpec& tensor =
          *std::ranges::find(model_.units[unit].tensors, run.tensor->hf_name, &TensorSpec::hf_name);
      for (std::int64_t i = 0; i < run.count(); ++i) {
        float& value = units_[unit][static_cast<std::size_t>(tensor.offset + run.first + i)];
        if (std::isnan(value)) value = values[run.at + i];
      }
    }
  }

  const Model& model_;
  std::mutex mutex_;
  std::vector<std::vector<float>> units_;
};

}  // namespace

void expect_equal_gradients(const Model& model, RunConfig alone, RunConfig config, int ranks) {
  Gradients one(model), several(model);
  for (RunConfig* run : {&alone, &config}) {
    run->train.steps = 1;
    run->plan.lanes = LaneMode::serial;
  }
  run(alone, one.options());
  const std::int64_t tensor = config.parallel.tensor;
  run_ranks(config, ranks, [&](int rank) { return several.options(tensor, rank % tensor); });
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    for (const TensorSpec& tensor : model.units[u].tensors) {
      if (tensor.flat == Flat::frozen) continue;
      double difference = 0, size = 0;
      for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.elements; ++i) {
        const double a = one.units()[u][static_cast<std::size_t>(i)];
        const double b = several.units()[u][static_cast<std::size_t>(i)];
        difference += (a - b) * (a - b);
        size += a * a;
      }
      EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(size)) << tensor.hf_name;
    }
  }
}

}  // namespace strata::test
