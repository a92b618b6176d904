#include "tests/execute/gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <vector>

namespace strata::test {
namespace {

/// Flat gradients of the first step, by unit, put together from what each rank updates with.
class Gradients {
 public:
  explicit Gradients(const Model& model) {
    for (const Unit& unit : model.units) units_.emplace_back(static_cast<std::size_t>(unit.elements), NAN);
  }

  RunOptions options() {
    return {
        .observer = [this](const Instruction& instruction, Trainer& trainer) { look(instruction, trainer); }};
  }
  const std::vector<std::vector<float>>& units() const { return units_; }

 private:
  void look(const Instruction& instruction, Trainer& trainer) {
    if (instruction.operation != Operation::sum_of_squares) return;
    const auto unit = static_cast<std::size_t>(instruction.unit);
    const FlatRange held = trainer.state().held(unit, Flat::trained);
    const std::span<const std::byte> bytes = trainer.state().read(instruction.find(Role::gradient));
    const std::span values(reinterpret_cast<const float*>(bytes.data()),
                           static_cast<std::size_t>(held.count));
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      float& value = units_[unit][static_cast<std::size_t>(held.first) + i];
      if (std::isnan(value)) value = values[i];
    }
  }

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
  run_ranks(config, ranks, [&](int) { return several.options(); });
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
