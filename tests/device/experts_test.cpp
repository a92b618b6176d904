// A mixture of experts out of its kernels, forward and backward, against the same computed token by token in
// double precision, and that one's derivatives.
#include <cmath>
#include <random>

#include "engine/device/activation_calls.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/device/expert_calls.h"
#include "engine/device/expert_rank.h"
#include "engine/device/product_calls.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/device/row_calls.h"
#include "tests/device/implementations.h"

namespace strata {
namespace {

constexpr std::int64_t kTokens = 9, kHidden = 5, kWidth = 3, kExperts = 4, kTopK = 2;
constexpr float kCoefficient = 0.3F;

/// What the mixture is a function of, and its gradients.
struct Parameters {
  std::vector<float> x = std::vector<float>(kTokens * kHidden);
  std::vector<float> router = std::vector<float>(kExperts * kHidden);
  std::vector<float> gate_up = std::vector<float>(kExperts * 2 * kWidth * kHidden);
  std::vector<float> down = std::vector<float>(kExperts * kHidden * kWidth);

  std::vector<std::vector<float>*> all() { return {&x, &router, &gate_up, &down}; }
};

Parameters random_parameters() {
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Parameters parameters;
  for (std::vector<float>* values : parameters.all()) {
    for (float& value : *values) value = uniform(generator);
  }
  return parameters;
}

/// The factor of element i of the output in the objective.
float factor(std::int64_t i) {
  return std::sin(static_cast<float>(i + 1));
}

std::vector<double> softmax_of_router(const Parameters& p, std::int64_t token) {
  std::vector<double> result(kExperts);
  double sum = 0;
  for (std::int64_t e = 0; e < kExperts; ++e) {
    double logit = 0;
    for (std::int64_t h = 0; h < kHidden; ++h)
      logit += static_cast<double>(p.router[static_cast<std::size_t>(e * kHidden + h)]) *
               p.x[static_cast<std::size_t>(token * kHidden + h)];
    sum += result[static_cast<std::size_t>(e)] = std::exp(logit);
  }
  for (double& probability : result) probability /= sum;
  return result;
}

/// Σ factor · (what the expert makes of the token).
double objective_of(const Parameters& p, std::int64_t token, std::int64_t expert) {
  const float* x = p.x.data() + token * kHidden;
  const float* gate_up = p.gate_up.data() + expert * 2 * kWidth * kHidden;
  const float* down = p.down.data() + expert * kHidden * kWidth;
  double objective = 0;
  for (std::int64_t w = 0; w < kWidth; ++w) {
    double gate = 0, up = 0, out = 0;
    for (std::int64_t h = 0; h < kHidden; ++h) {
      gate += static_cast<double>(gate_up[w * kHidden + h]) * x[h];
      up += static_cast<double>(gate_up[(kWidth + w) * kHidden + h]) * x[h];
      out += static_cast<double>(down[h * kWidth + w]) * factor(token * kHidden + h);
    }
    objective += gate / (1 + std::exp(-gate)) * up * out;
  }
  return objective;
}

/// The sum over all outputs, each times its factor, and the auxiliary loss.
double objective(const Parameters& p, bool normalise) {
  double sum = 0;
  std::vector<double> counts(kExperts), probability_sums(kExperts);
  for (std::int64_t token = 0; token < kTokens; ++token) {
    const std::vector<double> probabilities = softmax_of_router(p, token);
    std::vector<std::size_t> order = {0, 1, 2, 3};
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return probabilities[a] > probabilities[b]; });
    const double total = probabilities[order[0]] + probabilities[order[1]];
    for (std::size_t s = 0; s < kTopK; ++s) {
      sum += probabilities[order[s]] / (normalise ? total : 1) *
             objective_of(p, token, static_cast<std::int64_t>(order[s]));
      counts[order[s]] += 1;
    }
    for (std::size_t e = 0; e < kExperts; ++e) probability_sums[e] += probabilities[e];
  }
  for (std::size_t e = 0; e < kExperts; ++e)
    sum += static_cast<double>(kCoefficient) * kExperts * counts[e] / kTokens * probability_sums[e] / kTokens;
  return sum;
}

/// Memory that a call writes.
class Buffer {
 public:
  Buffer(std::int64_t rows, std::int64_t columns)
      : memory_(static_cast<std::size_t>(rows * columns)),
        view_(memory_.data(), DType::fp32, rows, columns) {}
  operator Matrix() const { return view_; }
  const std::vector<float>& values() const { return memory_; }

 private:
  std::vector<float> memory_;
  Matrix view_;
};

Matrix view(std::vector<float>& values, std::int64_t columns) {
  return {values.data(), DType::fp32, static_cast<std::int64_t>(values.size()) / columns, columns};
}

/// The same by kernels; adds to the gradients, but overwrites that of x. Returns the objective.
double run_mixture(Kernels& kernels, Parameters& p, bool normalise, Parameters& gradients) {
  constexpr std::int64_t kRows = kTokens * kTopK;
  const Matrix x = view(p.x, kHidden), router = view(p.router, kHidden), gate_up = view(p.gate_up, kHidden),
               down = view(p.down, kWidth);
  std::vector<std::int32_t> experts(kRows), sources(kRows), places(kRows), offsets(kExperts + 1);
  const Buffer logits(kTokens, kExperts), probabilities(kTokens, kExperts), weights(kTokens, kTopK);
  const Buffer counts(1, kExperts), probability_sums(1, kExperts), loss(1, 1), balance(1, kExperts);
  const Buffer gathered(kRows, kHidden), pre_activation(kRows, 2 * kWidth), activation(kRows, kWidth);
  const Buffer of_experts(kRows, kHidden), out(kTokens, kHidden);

  kernels.run(Product{.a = x, .b = router, .transpose_b = true, .out = logits});
  kernels.run(RouteForward{.normalise = normalise,
                           .logits = logits,
                           .probabilities = probabilities,
                           .experts = experts,
                           .weights = weights});
  kernels.run(GroupRows{
      .groups = experts, .copies = kTopK, .sources = sources, .places = places, .offsets = offsets});
  kernels.run(CountRows{offsets, counts});
  kernels.run(RowCopy{.x = x, .rows = sources, .out = gathered});
  kernels.run(GroupedProduct{
      .offsets = offsets, .a = gathered, .b = gate_up, .transpose_b = true, .out = pre_activation});
  kernels.run(GatedForward{Activation::silu, pre_activation, activation});
  kernels.run(
      GroupedProduct{.offsets = offsets, .a = activation, .b = down, .transpose_b = true, .out = of_experts});
  kernels.run(CombineRows{.x = of_experts, .places = places, .weights = weights, .out = out});
  kernels.run(ColumnSum{probabilities, probability_sums});
  kernels.run(LoadBalance{.counts = counts,
                          .probability_sums = probability_sums,
                          .rows = kTokens,
                          .coefficient = kCoefficient,
                          .loss = loss,
                          .balance = balance});

  const Buffer out_gradient(kTokens, kHidden), of_experts_gradient(kRows, kHidden),
      weights_gradient(kTokens, kTopK), activation_gradient(kRows, kWidth),
      pre_activation_gradient(kRows, 2 * kWidth), gathered_gradient(kRows, kHidden),
      logits_gradient(kTokens, kExperts);
  double result = loss.values()[0];
  for (std::int64_t i = 0; i < kTokens * kHidden; ++i) {
    static_cast<Matrix>(out_gradient).row<float>(0)[i] = factor(i);
    result += static_cast<double>(factor(i)) * out.values()[static_cast<std::size_t>(i)];
  }
  kernels.run(CombineRowsBackward{.x = of_experts,
                                  .places = places,
                                  .weights = weights,
                                  .out_gradient = out_gradient,
                                  .x_gradient = of_experts_gradient,
                                  .weights_gradient = weights_gradient});
  kernels.run(GroupedWeightGradient{.offsets = offsets,
                                    .a = of_experts_gradient,
                                    .b = activation,
                                    .gradient = view(gradients.down, kWidth)});
  kernels.run(
      GroupedProduct{.offsets = offsets, .a = of_experts_gradient, .b = down, .out = activation_gradient});
  kernels.run(GatedBackward{Activation::silu, pre_activation, activation_gradient, pre_activation_gradient});
  kernels.run(GroupedWeightGradient{.offsets = offsets,
                                    .a = pre_activation_gradient,
                                    .b = gathered,
                                    .gradient = view(gradients.gate_up, kHidden)});
  kernels.run(GroupedProduct{
      .offsets = offsets, .a = pre_activation_gradient, .b = gate_up, .out = gathered_gradient});
  kernels.run(CombineRows{.x = gathered_gradient, .places = places, .out = view(gradients.x, kHidden)});
  kernels.run(RouteBackward{.normalise = normalise,
                            .probabilities = probabilities,
                            .experts = experts,
                            .weights = weights,
                            .weights_gradient = weights_gradient,
                            .balance = balance,
                            .logits_gradient = logits_gradient});
  kernels.run(
      Product{.a = logits_gradient, .b = router, .out = view(gradients.x, kHidden), .accumulate = true});
  kernels.run(Product{.a = logits_gradient,
                      .transpose_a = true,
                      .b = x,
                      .out = view(gradients.router, kHidden),
                      .accumulate = true});
  return result;
}

void expect_derivatives(Parameters p, bool normalise, Parameters gradients) {
  constexpr float kStep = 0x1p-10F;
  const auto values = p.all(), slopes = gradients.all();
  for (std::size_t which = 0; which < values.size(); ++which) {
    for (std::size_t i = 0; i < values[which]->size(); ++i) {
      float& value = (*values[which])[i];
      const float before = value;
      const float above = value = before + kStep;
      const double high = objective(p, normalise);
      const float below = value = before - kStep;
      const double low = objective(p, normalise);
      value = before;
      EXPECT_NEAR((*slopes[which])[i], (high - low) / (above - below), 2e-5)
          << "parameter " << i << " of operand " << which;
    }
  }
}

TEST(MixtureOfExperts, OfKernelsIsTheSumOverChosenExpertsAndHasItsDerivatives) {
  CpuDevice device({.threads = 2, .link = {}});
  const std::unique_ptr<Stream> stream = device.make_stream();
  ReferenceKernels reference;
  for (Kernels* kernels : {static_cast<Kernels*>(&reference), &stream->kernels()}) {
    for (const bool normalise : {false, true}) {
      Parameters p = random_parameters(), gradients;
      EXPECT_NEAR(run_mixture(*kernels, p, normalise, gradients), objective(p, normalise), 1e-5);
      expect_derivatives(p, normalise, gradients);
    }
  }
}

/// NaN comes first, then numbers by size, and equal ones in the order of experts; zeros are equal.
const std::vector<float> kLogits = {0.0F,  -0.0F,     1.0F,  -kInfinity, 1.0F,
                                    -kNaN, kInfinity, -2.0F, 1e-40F,     kNaN};
const std::vector<std::int32_t> kOrder = {5, 9, 6, 2, 4, 8, 0, 1, 7, 3};

TEST(ExpertRank, OrdersLogitsAndThenExperts) {
  for (std::size_t i = 0; i + 1 < kOrder.size(); ++i) {
    const auto rank = [&](std::int32_t e) { return rank_of(kLogits[static_cast<std::size_t>(e)], e); };
    EXPECT_GT(rank(kOrder[i]), rank(kOrder[i + 1])) << i;
    EXPECT_EQ(expert_of(rank(kOrder[i])), kOrder[i]);
  }
}

using Experts = EveryImplementation;
INSTANTIATE_TEST_SUITE_P(, Experts, ::testing::ValuesIn(implementation_choices()), &name_of_choice);

TEST_P(Experts, AreChosenInTheOrderOfTheirRanks) {
  const auto count = static_cast<std::int64_t>(kLogits.size());
  OperandMemory logits(DType::fp32, 1, count);
  for (std::int64_t e = 0; e < count; ++e) logits.set(0, e, kLogits[static_cast<std::size_t>(e)]);
  const Scenario scenario{"",
                          {logits, OperandMemory(DType::fp32, 1, count), OperandMemory(DType::fp32, 1, count),
                           OperandMemory(DType::fp32, 1, count)},
                          [](Kernels& kernels, const std::vector<Matrix>& x) {
                            kernels.run(RouteForward{.logits = x[0],
                                                     .probabilities = x[1],
                                                     .experts = {static_cast<std::int32_t*>(x[2].data),
                                                                 static_cast<std::size_t>(x[2].columns)},
                                                     .weights = x[3]});
                          }};
  OperandMemory chosen = run_scenario(scenario, implementation())[2];
  const std::span<const std::int32_t> experts = indices_of(chosen.view());
  EXPECT_EQ(std::vector(experts.begin(), experts.end()), kOrder);
}

}  // namespace
}  // namespace strata
