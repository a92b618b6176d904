// Directions of rules that keep factors on every device, and 50 steps as transformers.Adafactor, NorMuon of
// pytorch-optimizer and row-wise Adagrad make them.
#include "engine/device/direction.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/arena.h"
#include "engine/device/reference/reference_kernels.h"
#include "optim/momentum.h"
#include "optim/update.h"
#include "tests/device/implementations.h"
#include "tests/device/scenario.h"
#include "tests/support/goldens.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using test::floats_of_bits;

/// A tensor's gradient, in whose place its direction comes, and its factors.
struct DirectedTensor {
  OperandMemory gradient, factors;
  bool is_vector = false;

  friend bool operator==(const DirectedTensor& a, const DirectedTensor& b) {
    return a.gradient.memory() == b.gradient.memory() && a.factors.memory() == b.factors.memory();
  }
};

constexpr UpdateRule kRules[] = {UpdateRule::adafactor, UpdateRule::normuon, UpdateRule::adagrad_rowwise};

/// Its factors begin as zeros.
DirectedTensor tensor_of(UpdateRule rule, const OperandMemory& gradient, bool is_vector = false) {
  std::int64_t factors = is_vector ? gradient.columns() : gradient.rows();
  if (rule == UpdateRule::adafactor && !is_vector) factors += gradient.columns();
  return {gradient, random_operand(1, DType::fp32, 1, factors, 0, 0), is_vector};
}

UpdateStep step_number(UpdateRule rule, std::int64_t step, float gradient_scale = 1) {
  const double epsilon = rule == UpdateRule::adafactor ? 1e-30 : 1e-10;
  return {.policy = {.rule = rule, .settings = {.epsilon = epsilon}},
          .gradient_scale = gradient_scale,
          .step = step};
}

DirectedTensor directed_by_reference(DirectedTensor tensor, const UpdateStep& step) {
  const UpdateCoefficients coefficients = strata::coefficients(step);
  const std::uint32_t skip = 0;
  ReferenceKernels kernels;
  Arena workspace(direction_bytes(step.policy.rule, tensor.gradient.rows(), tensor.gradient.columns()));
  find_direction(kernels,
                 {.rule = step.policy.rule,
                  .is_vector = tensor.is_vector,
                  .skip = &skip,
                  .step = &coefficients,
                  .factors = tensor.factors.view().row<float>(0)},
                 tensor.gradient.view(), workspace.data());
  return tensor;
}

class Direction : public EveryImplementation {
 protected:
  DirectedTensor directed(const DirectedTensor& tensor, const UpdateStep& step, std::uint32_t skip = 0) {
    UpdateCoefficients coefficients = strata::coefficients(step);
    std::optional<DirectedTensor> result;
    for (int run = 0; run < implementation().runs(); ++run) {
      implementation().begin_run(run);
      DirectedTensor after = tensor;
      Arena workspace(direction_bytes(step.policy.rule, tensor.gradient.rows(), tensor.gradient.columns()));
      const auto place = [&](auto& value) {
        return implementation().place(std::as_writable_bytes(std::span(&value, 1)));
      };
      Matrix gradient = after.gradient.view();
      gradient.data = implementation().place(after.gradient.bytes());
      find_direction(implementation().kernels(),
                     {.rule = step.policy.rule,
                      .is_vector = after.is_vector,
                      .skip = reinterpret_cast<const std::uint32_t*>(place(skip)),
                      .step = reinterpret_cast<const UpdateCoefficients*>(place(coefficients)),
                      .factors = reinterpret_cast<float*>(implementation().place(after.factors.bytes()))},
                     gradient, implementation().place(span_of(workspace.data(), workspace.size())));
      implementation().bring_back();
      if (result) {
        EXPECT_TRUE(after == *result);
      }
      result = std::move(after);
    }
    return *result;
  }
};

TEST_P(Direction, AgreesWithTheReference) {
  for (const UpdateRule rule : kRules) {
    for (const auto& [rows, columns] :
         {std::pair{1, 1}, {1, 7}, {4, 6}, {6, 4}, {33, 129}, {700, 64}, {48, 1100}}) {
      for (const DType dtype : kDTypes) {
        for (const bool is_vector : {false, true}) {
          if (is_vector && (rows > 1 || rule == UpdateRule::normuon)) continue;
          if (orthogonalizes(rule) && rows * columns > 5000) continue;  // tests of matrices have such
          SCOPED_TRACE(::testing::Message() << name_of(rule) << " " << name_of(dtype) << " " << rows << "x"
                                            << columns << (is_vector ? " vector" : ""));
          DirectedTensor tensor = tensor_of(rule, OperandMemory(dtype, rows, columns), is_vector),
                         expected = tensor;
          for (const std::int64_t step : {1, 2}) {
            tensor.gradient = expected.gradient =
                random_operand(static_cast<std::uint64_t>(step), dtype, rows, columns, 0, 0.02F);
            tensor = directed(tensor, step_number(rule, step, 0.25F));
            expected = directed_by_reference(expected, step_number(rule, step, 0.25F));
            const double bound = orthogonalizes(rule) ? 0.02 : dtype == DType::fp32 ? 1e-5 : 5e-3;
            EXPECT_LT(relative_error(tensor.factors, expected.factors), orthogonalizes(rule) ? 0.02 : 1e-5);
            EXPECT_LT(relative_error(tensor.gradient, expected.gradient), bound);
          }
        }
      }
    }
  }
}

TEST_P(Direction, OfASkippedStepIsZeroAndChangesNoFactor) {
  for (const UpdateRule rule : kRules) {
    DirectedTensor tensor = tensor_of(rule, random_operand(3, DType::fp32, 6, 20));
    tensor = directed(tensor, step_number(rule, 1));
    const OperandMemory factors = tensor.factors;
    tensor = directed(tensor, step_number(rule, 2), 1);
    EXPECT_EQ(tensor.factors.memory(), factors.memory());
    for (std::int64_t row = 0; row < 6; ++row) EXPECT_EQ(tensor.gradient.at(row, 3), 0);
  }
}

TEST_P(Direction, OfZerosIsZero) {
  for (const UpdateRule rule : kRules) {
    const DirectedTensor tensor =
        directed(tensor_of(rule, random_operand(3, DType::bf16, 5, 9, 0, 0)), step_number(rule, 1));
    for (std::int64_t column = 0; column < 9; ++column) EXPECT_EQ(tensor.gradient.at(2, column), 0);
  }
}

void expect_near(std::span<const float> actual, const nlohmann::json& bits) {
  const std::vector<float> expected = floats_of_bits(bits);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-5F * std::abs(expected[i])) << i;
}

UpdateStep steps_of(const nlohmann::json& golden) {
  return {.policy = {.rule = test::rule_named(golden.at("rule")),
                     .weight_decay = golden.at("weight_decay"),
                     .settings = test::settings_in(golden)},
          .learning_rate = golden.at("learning_rate"),
          .step = 0};
}

// Invariant of numbers (Direction.*): Steps of rules with factors are those of their references. 50 steps
// give the weights and the factors of transformers.Adafactor and of pytorch_optimizer.NorMuon within 1e-5.
TEST_P(Direction, TakesTheStepsOfEachRulesReference) {
  nlohmann::json goldens;
  std::ifstream(test::source_folder() / "tests/device/direction_goldens.json") >> goldens;
  for (const nlohmann::json& golden : goldens.at("tensors")) {
    const auto shape = golden.at("shape").get<std::vector<std::int64_t>>();
    SCOPED_TRACE(golden.at("rule").dump() + golden.at("shape").dump());
    UpdateStep step = steps_of(golden);
    const UpdateRule rule = step.policy.rule;
    std::vector<float> weights = floats_of_bits(golden.at("weights")), buffer(weights.size());
    const bool is_vector = shape.size() == 1;
    DirectedTensor tensor =
        tensor_of(rule, OperandMemory(DType::fp32, is_vector ? 1 : shape.front(), shape.back()), is_vector);
    for (const nlohmann::json& bits : golden.at("gradients")) {
      const std::vector<float> gradient = floats_of_bits(bits);
      std::ranges::copy(std::as_bytes(std::span(gradient)), tensor.gradient.bytes().begin());
      ++step.step;
      OptimizerState state = {.rule = rule,
                              .precision = DType::fp32,
                              .elements = std::ssize(weights),
                              .master = weights.data(),
                              .gradient = tensor.gradient.bytes().data()};
      state.of(kMixedMoment) = buffer.data();
      if (orthogonalizes(rule)) mix_momentum(coefficients(step), state, tensor.gradient.bytes().data());
      tensor = directed(tensor, step);
      state.gradient = tensor.gradient.bytes().data();
      update(coefficients(step), state);
      for (const nlohmann::json& shown : golden.at("shown")) {
        if (shown.at("step") != step.step) continue;
        SCOPED_TRACE(step.step);
        expect_near(weights, shown.at("weights"));
        const Matrix factors = tensor.factors.view();
        expect_near(span_of(factors.row<const float>(0), factors.columns), shown.at("factors"));
      }
    }
    EXPECT_EQ(step.step, 50);
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, Direction, ::testing::ValuesIn(implementation_choices()),
                         name_of_choice);

}  // namespace
}  // namespace strata
