// What is drawn from logits.
#include "engine/run/generate/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace strata {
namespace {

constexpr std::uint64_t kDraws = 4000;

std::map<std::int32_t, double> shares(const std::vector<float>& logits, const SamplingOptions& options) {
  std::map<std::int32_t, double> shares;
  for (std::uint64_t i = 0; i < kDraws; ++i)
    shares[next_token(logits, options, {.prompt = 0, .position = i})] += 1.0 / static_cast<double>(kDraws);
  return shares;
}

const std::vector<float> kLogits = {0.0F, 2.0F, 1.0F, -3.0F};

TEST(Sampling, TakesTheLikeliestTokenAtTemperatureZero) {
  EXPECT_EQ(next_token(kLogits, {}, {}), 1);
  EXPECT_EQ(next_token(std::vector<float>{1, 3, 3, 2}, {}, {}), 1) << "the smaller of equal ones";
  EXPECT_EQ(next_token(std::vector<float>{NAN, -5, NAN}, {}, {}), 1);
  EXPECT_EQ(next_token(std::vector<float>{NAN, NAN}, {.temperature = 1}, {}), 0);
}

TEST(Sampling, DrawsByTheProbabilities) {
  for (const double temperature : {0.5, 1.0, 2.0}) {
    double total = 0;
    for (const float logit : kLogits) total += std::exp(logit / temperature);
    std::map<std::int32_t, double> drawn = shares(kLogits, {.temperature = temperature});
    for (std::size_t id = 0; id < kLogits.size(); ++id)
      EXPECT_NEAR(drawn[static_cast<std::int32_t>(id)], std::exp(kLogits[id] / temperature) / total, 0.03);
  }
}

TEST(Sampling, LeavesOutWhatIsUnlikely) {
  // Probabilities: 0.089, 0.66, 0.243, 0.004.
  const auto ids = [](const SamplingOptions& options) {
    std::vector<std::int32_t> ids;
    for (const auto& [id, share] : shares(kLogits, options)) ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(ids({.temperature = 1, .top_p = 0.5}), (Ids{1}));
  EXPECT_EQ(ids({.temperature = 1, .top_p = 0.0}), (Ids{1}));
  EXPECT_EQ(ids({.temperature = 1, .top_p = 0.7}), (Ids{1, 2}));
  EXPECT_EQ(ids({.temperature = 1, .top_p = 0.95}), (Ids{0, 1, 2}));
  EXPECT_EQ(ids({.temperature = 1, .top_k = 2}), (Ids{1, 2}));
  EXPECT_EQ(ids({.temperature = 10, .top_p = 0.3, .top_k = 3}), (Ids{1}));
  EXPECT_NEAR(shares(kLogits, {.temperature = 1, .top_k = 2})[2], 1 / (1 + std::exp(1.0)), 0.03);
}

TEST(Sampling, DrawsTheSameForTheSameSeedPromptAndPosition) {
  const std::vector<float> even(100, 0.0F);
  const auto drawn = [&](std::uint64_t seed, std::uint64_t prompt) {
    std::vector<std::int32_t> ids;
    for (std::uint64_t i = 0; i < 20; ++i)
      ids.push_back(next_token(even, {.temperature = 1, .seed = seed}, {.prompt = prompt, .position = i}));
    return ids;
  };
  EXPECT_EQ(drawn(1, 2), drawn(1, 2));
  EXPECT_NE(drawn(1, 2), drawn(1, 3));
  EXPECT_NE(drawn(1, 2), drawn(2, 2));
}

}  // namespace
}  // namespace strata
