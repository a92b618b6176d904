// Matrices that are orthogonalized on every device, and 50 steps of Muon as torch.optim.Muon makes them.
#include "engine/device/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/arena.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/device/state_calls.h"
#include "optim/momentum.h"
#include "optim/update.h"
#include "tests/device/implementations.h"
#include "tests/device/scenario.h"
#include "tests/support/goldens.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using test::floats_of_bits;

class NewtonSchulz : public EveryImplementation {
 protected:
  OperandMemory orthogonal(const OperandMemory& matrix) {
    std::optional<OperandMemory> result;
    for (int run = 0; run < implementation().runs(); ++run) {
      implementation().begin_run(run);
      OperandMemory after = matrix;
      Arena workspace(orthogonalize_bytes(matrix.rows(), matrix.columns()));
      Matrix view = after.view();
      view.data = implementation().place(after.bytes());
      orthogonalize(implementation().kernels(), view,
                    implementation().place(span_of(workspace.data(), workspace.size())));
      implementation().bring_back();
      if (result) {
        EXPECT_EQ(after.memory(), result->memory());
      }
      result = std::move(after);
    }
    return *result;
  }
};

OperandMemory orthogonal_by_reference(OperandMemory matrix) {
  ReferenceKernels kernels;
  Arena workspace(orthogonalize_bytes(matrix.rows(), matrix.columns()));
  orthogonalize(kernels, matrix.view(), workspace.data());
  return matrix;
}

/// Multiplies two rows, or two columns if these are fewer.
double product_of(const OperandMemory& x, std::int64_t a, std::int64_t b) {
  const bool is_wide = x.rows() <= x.columns();
  double sum = 0;
  for (std::int64_t i = 0; i < std::max(x.rows(), x.columns()); ++i)
    sum += is_wide ? double{x.at(a, i)} * x.at(b, i) : double{x.at(i, a)} * x.at(i, b);
  return sum;
}

TEST_P(NewtonSchulz, AgreesWithTheReferenceAndMakesRowsOrColumnsNearlyOrthogonal) {
  for (const auto& [rows, columns] :
       {std::pair{1, 1}, {1, 7}, {4, 6}, {6, 4}, {33, 129}, {160, 64}, {48, 48}}) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << rows << "x" << columns);
      const OperandMemory matrix = random_operand(3, dtype, rows, columns, 0, 0.02F);
      const OperandMemory result = orthogonal(matrix);
      EXPECT_LT(relative_error(result, orthogonal_by_reference(matrix)), 0.02);
      // Singular values between 0.5 and 1.5, but for the smallest ones of a square matrix.
      if (rows == columns) continue;
      const std::int64_t side = std::min(rows, columns);
      for (std::int64_t a = 0; a < side; ++a) {
        EXPECT_GT(product_of(result, a, a), 0.4) << a;
        EXPECT_LT(product_of(result, a, a), 1.6) << a;
      }
    }
  }
}

TEST_P(NewtonSchulz, LeavesZerosAndHasNoUseForTheSizeOfAMatrix) {
  const OperandMemory zeros = random_operand(3, DType::bf16, 12, 20, 0, 0);
  EXPECT_EQ(orthogonal(zeros).memory(), zeros.memory());
  const OperandMemory small = random_operand(3, DType::fp32, 12, 20, 0, 1e-20F);
  OperandMemory large = small;
  for (std::int64_t row = 0; row < 12; ++row) {
    for (std::int64_t column = 0; column < 20; ++column)
      large.set(row, column, std::ldexp(small.at(row, column), 60));
  }
  // The norm of the small one is below the least that is divided by.
  EXPECT_LT(relative_error(orthogonal(large), orthogonal_by_reference(large)), 0.02);
  EXPECT_LT(std::abs(orthogonal(small).at(0, 0)), 1e-6);
}

/// ‖a - b‖ / ‖b‖
double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / size);
}

// Invariant of numbers (NewtonSchulz.*): Muon's steps are those of torch. Products are rounded to
// bf16 where torch rounds them. 50 steps give its weights within 1e-5.
TEST_P(NewtonSchulz, StepsAreThoseOfTorchsMuon) {
  nlohmann::json goldens;
  std::ifstream(test::source_folder() / "tests/device/muon_goldens.json") >> goldens;
  for (const nlohmann::json& golden : goldens.at("matrices")) {
    const std::int64_t rows = golden.at("rows"), columns = golden.at("columns");
    SCOPED_TRACE(::testing::Message() << rows << "x" << columns);
    std::vector<float> weights = floats_of_bits(golden.at("weights")), buffer(weights.size());
    std::int64_t steps = 0;
    for (const nlohmann::json& bits : golden.at("gradients")) {
      OperandMemory gradient(DType::fp32, rows, columns);
      const std::vector<float> values = floats_of_bits(bits);
      std::ranges::copy(std::as_bytes(std::span(values)), gradient.bytes().begin());
      const UpdateCoefficients step = coefficients(
          {.policy = {.rule = UpdateRule::muon,
                      .weight_decay = golden.at("weight_decay"),
                      .settings = {.momentum = golden.at("momentum"), .scale = golden.at("scale")}},
           .learning_rate = golden.at("learning_rate"),
           .step = ++steps});
      OptimizerState state = {.rule = UpdateRule::muon,
                              .precision = DType::fp32,
                              .elements = std::ssize(weights),
                              .master = weights.data(),
                              .gradient = gradient.bytes().data()};
      state.of(kMixedMoment) = buffer.data();
      mix_momentum(step, state, gradient.bytes().data());
      gradient = orthogonal(gradient);
      state.gradient = gradient.bytes().data();
      update(step, state);
      for (const nlohmann::json& shown : golden.at("shown")) {
        if (shown.at("step") != steps) continue;
        EXPECT_LT(relative_error(weights, floats_of_bits(shown.at("weights"))), 1e-5) << steps;
        EXPECT_LT(relative_error(buffer, floats_of_bits(shown.at("momentum_buffer"))), 1e-6) << steps;
      }
    }
    EXPECT_EQ(steps, 50);
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, NewtonSchulz, ::testing::ValuesIn(implementation_choices()),
                         name_of_choice);

}  // namespace
}  // namespace strata
