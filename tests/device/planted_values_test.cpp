// Every kernel on operands in which single elements are special values, against the reference: NaN and
// infinities come out where they do there, and all else is as close as ever. The activations meet each value
// that their formulas could stumble over.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/device/activation_calls.h"
#include "engine/device/attention_calls.h"
#include "engine/device/norm_calls.h"
#include "engine/device/reference/reference_kernels.h"
#include "tests/device/expert_scenarios.h"
#include "tests/device/head_norm_scenarios.h"
#include "tests/device/implementations.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

/// Gates that are no normal numbers may be zero.
constexpr double kNextToNothing = 1e-30;
/// The squares of huge ones are finite.
constexpr float kPlanted[] = {kNaN, kInfinity, -kInfinity, 0.0F, -0.0F, 1e-40F, -1e-45F, 1e18F, -1e18F};

/// What a NaN or an infinity does to the rest: comes out where it does in the reference, or there and
/// wherever zeros multiply it.
enum class Poison { stays, spreads };

/// A scenario, and which of its operands are read as numbers.
struct Case {
  Scenario scenario;
  std::vector<std::size_t> inputs;
  Poison poison = Poison::stays;
};

Scenario planted(const Case& plain, std::size_t operand, float value) {
  Scenario scenario = plain.scenario;
  scenario.name += fmt::format(" with {} in operand {}", value, operand);
  OperandMemory& x = scenario.operands[operand];
  x.set(0, 0, value);
  x.set(x.rows() / 2, x.columns() / 2, value);
  x.set(x.rows() - 1, x.columns() - 1, value);
  return scenario;
}

class PlantedValues : public EveryImplementation {
 protected:
  void expect_agrees_value_by_value(const Scenario& scenario, Poison poison = Poison::stays) {
    SCOPED_TRACE(scenario.name);
    ReferenceKernels kernels;
    std::vector<OperandMemory> wide;
    wide.reserve(scenario.operands.size());
    for (const OperandMemory& operand : scenario.operands) wide.push_back(operand.widened());
    std::vector<Matrix> views;
    views.reserve(wide.size());
    for (OperandMemory& operand : wide) views.push_back(operand.view());
    scenario.call(kernels, views);
    const std::vector<OperandMemory> results = run_scenario(scenario, implementation());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const double tolerance = 10 * scenario.tolerance(results[i].dtype());
      for (std::int64_t row = 0; row < results[i].rows(); ++row) {
        EXPECT_EQ(difference(results[i], wide[i], row, tolerance, poison), "")
            << "operand " << i << ", row " << row;
      }
    }
  }

  void expect_agrees_with_every_value_planted(const std::vector<Case>& cases) {
    for (const Case& plain : cases) {
      for (const std::size_t operand : plain.inputs) {
        for (const float value : kPlanted) {
          const Scenario scenario = planted(plain, operand, value);
          const bool is_finite =
              std::isfinite(scenario.operands[operand].at(0, 0));  // fp16 has no huge numbers
          expect_agrees_value_by_value(scenario, is_finite ? Poison::stays : plain.poison);
        }
      }
    }
  }

 private:
  /// The first element that differs by more than the tolerance times the row's largest number, or that is not
  /// finite in another way.
  static std::string difference(const OperandMemory& actual, const OperandMemory& wide, std::int64_t row,
                                double tolerance, Poison poison) {
    OperandMemory rounded(actual.dtype(), 1, wide.columns());
    double largest = kNextToNothing;
    for (std::int64_t column = 0; column < wide.columns(); ++column) {
      rounded.set(0, column, wide.at(row, column));
      const double size = std::abs(rounded.at(0, column));
      if (std::isfinite(size)) largest = std::max(largest, size);
    }
    for (std::int64_t column = 0; column < wide.columns(); ++column) {
      const double is = actual.at(row, column), expected = rounded.at(0, column);
      const bool same = is == expected || (std::isnan(is) && std::isnan(expected)) ||
                        std::abs(is - expected) <= tolerance * largest ||
                        (poison == Poison::spreads && !std::isfinite(is));
      if (!same) {
        return fmt::format("column {} is {} instead of {}", column, is, expected);
      }
    }
    return "";
  }
};
INSTANTIATE_TEST_SUITE_P(, PlantedValues, ::testing::ValuesIn(implementation_choices()), &name_of_choice);

// Invariant (PlantedValues.*): Every instruction set computes right.
TEST_P(PlantedValues, ProductsAndSums) {
  std::vector<Case> cases;
  for (const DType dtype : kDTypes) {
    cases.push_back({matmul_scenario({.m = 37, .n = 70, .k = 51, .bias = true, .dtype = dtype, .out = dtype}),
                     {0, 1, 3}});
    cases.push_back(
        {matmul_scenario({.m = 37, .n = 70, .k = 51, .accumulate = true, .dtype = dtype}), {0, 1, 2}});
    cases.push_back({column_sums_scenario(dtype, 37, 65), {0, 1}});
  }
  expect_agrees_with_every_value_planted(cases);
}

TEST_P(PlantedValues, Norms) {
  std::vector<Case> cases;
  for (const DType dtype : kDTypes) {
    for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
      cases.push_back({norm_scenario(kind, dtype, 5, 65, false), {0, 3}});
      cases.push_back({norm_scenario(kind, dtype, 5, 65, true), {0, 1}});
      cases.push_back({norm_backward_scenario(kind, dtype, 5, 65, GradientPlace::own), {0, 1, 4}});
      cases.push_back({norm_scenario(kind, dtype, 5, 65, false, 1, /*unit_offset=*/true), {0, 3}});
      cases.push_back({norm_backward_scenario(kind, dtype, 5, 65, GradientPlace::own, 1, true), {0, 1, 4}});
    }
  }
  expect_agrees_with_every_value_planted(cases);
}

TEST_P(PlantedValues, Attention) {
  AttentionShape shape{
      .batch = 1, .sequence = 37, .heads = 2, .kv_heads = 1, .head_dimension = 16, .scale = 0.25F};
  std::vector<Case> cases;
  for (const DType dtype : kDTypes) {
    for (const float soft_cap : {0.0F, 2.0F}) {
      shape.soft_cap = soft_cap;
      // Probabilities of keys that a query does not see are zeros in its products.
      cases.push_back({attention_scenario(shape, dtype), {0}, Poison::spreads});
      cases.push_back({attention_backward_scenario(shape, dtype), {3}, Poison::spreads});
      cases.push_back({cached_attention_scenario(shape, dtype, {30}), {0}, Poison::spreads});
    }
    cases.push_back({rope_scenario(dtype, 2, 9, 2, 34, false, 1, {4, 1}), {0}});
    cases.push_back({rope_scenario(dtype, 2, 9, 2, 34, false), {0}});
    for (const HeadNormCase& heads : {HeadNormCase{2, 5, 1, 2, 34}, {1, 5, 1, 2, 64, 8}})
      cases.push_back({head_norm_scenario(dtype, heads), {0, 1, 2, 8}});
  }
  expect_agrees_with_every_value_planted(cases);
}

TEST_P(PlantedValues, RowsAndLosses) {
  std::vector<Case> cases;
  for (const DType dtype : kDTypes) {
    cases.push_back({embedding_scenario(dtype, 2, 9, 65, true), {0, 1}});
    cases.push_back({embedding_backward_scenario(dtype, 2, 9, 65, true), {0, 1, 2}});
    cases.push_back({copy_rows_scenario(dtype, 65, 0), {0}});
    cases.push_back({sum_rows_scenario(dtype, 65, 0, 11 * 65), {0}});
    cases.push_back({cross_entropy_scenario(dtype, 5, 65, 0), {0}});
    cases.push_back({cross_entropy_scenario(dtype, 5, 65, 0, false, /*soft_cap=*/3), {0}});
    cases.push_back({penalised_cross_entropy_scenario(dtype, 5, 65), {3}});
    cases.push_back({parts_of_cross_entropy_scenario(dtype, 5, 65, 0), {0}});
    cases.push_back({parts_of_cross_entropy_scenario(dtype, 5, 65, 0, /*soft_cap=*/3), {0}});
    cases.push_back({add_scenario(dtype, 5, 65, 0, false), {0, 1}});
    cases.push_back({scale_scenario(dtype, 5, 65, 0, false), {0}});
    for (const DType to : kDTypes) cases.push_back({cast_scenario(dtype, to, 5, 65), {0}});
  }
  expect_agrees_with_every_value_planted(cases);
}

TEST_P(PlantedValues, Experts) {
  std::vector<Case> cases = {{load_balance_scenario(65, true), {0, 1, 2}}};
  for (const DType dtype : kDTypes) {
    for (const bool normalise : {false, true}) {
      cases.push_back({route_scenario(dtype, 5, 65, 3, normalise), {0}});
      cases.push_back({route_backward_scenario(dtype, 5, 65, 3, normalise, true), {0, 2, 3, 4}});
    }
    cases.push_back({combine_rows_scenario(dtype, 5, 3, 65, true), {0, 2}});
    cases.push_back({combine_rows_backward_scenario(dtype, 5, 3, 65, false), {0, 2, 3}});
    for (const bool transpose_b : {false, true})
      cases.push_back({grouped_product_scenario(dtype, {3, 0, 17, 4}, 33, 65, transpose_b), {1, 2}});
    cases.push_back({grouped_gradient_scenario(dtype, {3, 0, 17, 4}, 33, 65), {1, 2, 3}});
  }
  expect_agrees_with_every_value_planted(cases);
}

/// Where exponentials, squares and cubes underflow, overflow and vanish beside 1.
std::vector<float> turning_points() {
  std::vector<float> values = {0,     1e-45F, 1e-40F, 1.1754944e-38F, 1e-20F, 1e-4F,    0.5F,  1,     3,
                               4.6F,  5.2F,   9.3F,   9.4F,           9.6F,   15.9F,    16.1F, 17,    87.2F,
                               87.4F, 88.3F,  88.5F,  88.8F,          100,    104,      1e4F,  1e12F, 1e13F,
                               1e18F, 1e19F,  2e19F,  1e30F,          3e38F,  kInfinity};
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  values.push_back(kNaN);
  return values;
}

/// x of every turning point and the other operand of a few sizes; a row each, so that all are compared by
/// themselves.
struct Pairs {
  std::vector<float> first, second;
};
Pairs pairs_of(std::initializer_list<float> others) {
  Pairs pairs;
  for (const float x : turning_points()) {
    for (const float other : others) {
      pairs.first.push_back(x);
      pairs.second.push_back(other);
    }
  }
  return pairs;
}

OperandMemory column_of(DType dtype, const std::vector<float>& values) {
  // Repeated, so that whole vectors see them as well as a vector's rest.
  OperandMemory result(dtype, static_cast<std::int64_t>(values.size()), 67);
  for (std::size_t row = 0; row < values.size(); ++row) {
    for (std::int64_t column = 0; column < 67; ++column)
      result.set(static_cast<std::int64_t>(row), column, values[row]);
  }
  return result;
}

OperandMemory side_by_side(DType dtype, const Pairs& pairs) {
  OperandMemory result(dtype, static_cast<std::int64_t>(pairs.first.size()), 2 * 67);
  for (std::size_t row = 0; row < pairs.first.size(); ++row) {
    for (std::int64_t column = 0; column < 2 * 67; ++column) {
      result.set(static_cast<std::int64_t>(row), column, (column < 67 ? pairs.first : pairs.second)[row]);
    }
  }
  return result;
}

/// A call on these operands.
Scenario at_turning_points(const char* name, std::vector<OperandMemory> operands, Scenario::Call call) {
  return {.name = name, .operands = std::move(operands), .call = std::move(call), .fp32_tolerance = 2e-6};
}

TEST_P(PlantedValues, ActivationsAtTheirTurningPoints) {
  const Pairs pairs = pairs_of({1, -3, 0.5F});
  for (const Activation kind : kActivations) {
    for (const DType dtype : kDTypes) {
      const OperandMemory x = column_of(dtype, pairs.first), gradient = column_of(dtype, pairs.second);
      expect_agrees_value_by_value(
          at_turning_points("forward", {x, x}, [kind](Kernels& kernels, const std::vector<Matrix>& m) {
            kernels.run(ActivationForward{kind, m[0], m[1]});
          }));
      expect_agrees_value_by_value(at_turning_points(
          "backward", {x, gradient, x}, [kind](Kernels& kernels, const std::vector<Matrix>& m) {
            kernels.run(ActivationBackward{kind, m[0], m[1], m[2]});
          }));
    }
  }
}

TEST_P(PlantedValues, GatesAtTheirTurningPoints) {
  const Pairs pairs = pairs_of({1, -3, 0.5F});
  for (const Activation kind : kActivations) {
    for (const DType dtype : kDTypes) {
      const OperandMemory gate_up = side_by_side(dtype, pairs), out = column_of(dtype, pairs.first);
      expect_agrees_value_by_value(at_turning_points("forward", {gate_up, out},
                                                     [kind](Kernels& kernels, const std::vector<Matrix>& m) {
                                                       kernels.run(GatedForward{kind, m[0], m[1]});
                                                     }));
      const OperandMemory gradient = column_of(dtype, std::vector<float>(pairs.first.size(), 1.5F));
      expect_agrees_value_by_value(at_turning_points("backward", {gate_up, gradient, gate_up},
                                                     [kind](Kernels& kernels, const std::vector<Matrix>& m) {
                                                       kernels.run(GatedBackward{kind, m[0], m[1], m[2]});
                                                     }));
    }
  }
}

}  // namespace
}  // namespace strata
