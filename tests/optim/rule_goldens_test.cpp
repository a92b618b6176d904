// Every update rule gives the weights and moments that torch.optim gives, Lion those of its paper, and
// AdEMAMix those of pytorch-optimizer. Of tests/optim/make_rule_goldens.py.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/enum_array.h"
#include "base/nth.h"
#include "optim/average.h"
#include "optim/update.h"
#include "tests/support/goldens.h"
#include "tests/support/source_folder.h"
#include "tests/support/state_types.h"

namespace strata {
namespace {

using test::floats_of_bits;

UpdatePolicy policy_of(const nlohmann::json& golden) {
  return {.rule = test::rule_named(golden.at("rule")),
          .weight_decay = golden.at("weight_decay"),
          .settings = test::settings_in(golden)};
}

/// Weights in fp32, and moments that begin as zeros.
class Trained {
 public:
  Trained(const UpdatePolicy& policy, double learning_rate, std::vector<float> weights,
          MomentFormat moments = MomentFormat::fp32)
      : policy_(policy),
        learning_rate_(learning_rate),
        weights_(std::move(weights)),
        format_{.moments = moments} {
    for (const Moment moment : kMoments) {
      moments_[moment] = test::stored_moment(format_.format_of(moment), codes_of(moment), weights_.size(),
                                             [](std::size_t /*any*/) { return 0.0F; });
    }
  }

  void step(const std::vector<float>& gradient) {
    OptimizerState state = {.rule = policy_.rule,
                            .precision = DType::fp32,
                            .format = format_,
                            .elements = std::ssize(weights_),
                            .master = weights_.data(),
                            .gradient = gradient.data()};
    moments_of(policy_.rule).for_each([&](Moment moment) { state.of(moment) = moments_[moment].data(); });
    update(coefficients({.policy = policy_, .learning_rate = learning_rate_, .step = ++steps_}), state);
  }

  std::int64_t steps() const { return steps_; }
  const std::vector<float>& weights() const { return weights_; }
  std::vector<float> moment(Moment moment) const {
    return test::moment_values(format_.format_of(moment), codes_of(moment), moments_[moment],
                               weights_.size());
  }

 private:
  UpdatePolicy policy_;
  double learning_rate_;
  std::vector<float> weights_;
  StateFormat format_;
  EnumArray<Moment, std::vector<std::byte>> moments_;
  std::int64_t steps_ = 0;
};

/// `floor`: sizes below it count as this.
void expect_near(const std::vector<float>& actual, const nlohmann::json& bits, float floor) {
  const std::vector<float> expected = floats_of_bits(bits);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-5F * std::max(std::abs(expected[i]), floor)) << i;
}

nlohmann::json read_goldens() {
  nlohmann::json goldens;
  std::ifstream(test::source_folder() / "tests/optim/rule_goldens.json") >> goldens;
  return goldens;
}

std::vector<std::vector<float>> gradients_in(const nlohmann::json& goldens) {
  std::vector<std::vector<float>> gradients;
  for (const nlohmann::json& gradient : goldens.at("gradients"))
    gradients.push_back(floats_of_bits(gradient));
  EXPECT_EQ(gradients.size(), 50U);
  return gradients;
}

// Invariant (RuleGoldens.*): The arithmetic is that of PyTorch.
TEST(RuleGoldens, AreWhatEachRuleGives) {
  const nlohmann::json goldens = read_goldens();
  const std::vector<std::vector<float>> gradients = gradients_in(goldens);
  // Those of rules that need whole tensors are in tests/device.
  ASSERT_EQ(std::ssize(goldens.at("rules")),
            std::ranges::count_if(kUpdateRules, std::not_fn(needs_whole_tensors)));
  for (const nlohmann::json& golden : goldens.at("rules")) {
    const UpdatePolicy policy = policy_of(golden);
    Trained trained(policy, golden.at("learning_rate"), floats_of_bits(goldens.at("weights")));
    for (const nlohmann::json& shown : golden.at("shown")) {
      while (trained.steps() < shown.at("step").get<std::int64_t>())
        trained.step(nth(gradients, trained.steps()));
      SCOPED_TRACE(std::string(name_of(policy.rule)) + " after step " + shown.at("step").dump());
      expect_near(trained.weights(), shown.at("weights"), 0);
      EXPECT_EQ(std::ssize(shown.at("moments")), moments_of(policy.rule).count());
      for (const auto& [name, bits] : shown.at("moments").items()) {
        const auto moment =
            std::ranges::find(kMoments, name, [](Moment each) { return std::string(name_of(each)); });
        ASSERT_TRUE(moment != kMoments.end() && moments_of(policy.rule).has(*moment)) << name;
        SCOPED_TRACE(name);
        // A mean of gradients may come near to zero by chance.
        expect_near(trained.moment(*moment), bits, test::holds_squares(*moment) ? 0 : 1e-3F);
      }
    }
  }
}

/// The distance between where weights end and where they should, as a part of the way to there.
double error_of_way(const std::vector<float>& from, const std::vector<float>& to,
                    const std::vector<float>& expected) {
  double error = 0, way = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    error += std::pow(to[i] - expected[i], 2);
    way += std::pow(expected[i] - from[i], 2);
  }
  return std::sqrt(error / way);
}

TEST(RuleGoldens, AreNearlyWhatRulesGiveWithMomentsOfFewerBits) {
  const nlohmann::json goldens = read_goldens();
  const std::vector<std::vector<float>> gradients = gradients_in(goldens);
  const std::vector<float> start = floats_of_bits(goldens.at("weights"));
  for (const nlohmann::json& golden : goldens.at("rules")) {
    const UpdatePolicy policy = policy_of(golden);
    if (moments_of(policy.rule).count() == 0) continue;
    const nlohmann::json& last = golden.at("shown").back();
    for (const auto& [format, bound] :
         {std::pair{MomentFormat::bf16, 0.02}, std::pair{MomentFormat::coded, 0.1}}) {
      Trained trained(policy, golden.at("learning_rate"), start, format);
      for (const std::vector<float>& gradient : gradients) trained.step(gradient);
      const double error = error_of_way(start, trained.weights(), floats_of_bits(last.at("weights")));
      EXPECT_LT(error, bound) << name_of(policy.rule) << ", moments " << name_of(format);
      EXPECT_GT(error, 0) << name_of(policy.rule);
    }
  }
}

TEST(RuleGoldens, AreWhatAveragesOfWeightsGive) {
  const nlohmann::json goldens = read_goldens();
  const nlohmann::json &adamw = goldens.at("rules").front(), &ema = goldens.at("ema");
  const std::vector<std::vector<float>> gradients = gradients_in(goldens);
  Trained trained(policy_of(adamw), adamw.at("learning_rate"), floats_of_bits(goldens.at("weights")));
  std::vector<float> averages(trained.weights().size());
  for (const nlohmann::json& shown : ema.at("shown")) {
    while (trained.steps() < shown.at("step").get<std::int64_t>()) {
      trained.step(nth(gradients, trained.steps()));
      std::vector<float> weights = trained.weights();
      OptimizerState state = {
          .precision = DType::fp32, .elements = std::ssize(weights), .master = weights.data()};
      state.of(Moment::ema) = averages.data();
      average(average_coefficients({.decay = ema.at("decay")}, trained.steps(), 1), state);
    }
    SCOPED_TRACE("after step " + shown.at("step").dump());
    expect_near(averages, shown.at("weights"), 0);
  }
}

}  // namespace
}  // namespace strata
