#include "engine/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace strata {
namespace {

/// In [0, 1).
double uniform(std::uint64_t seed, const DrawnFor& which) {
  constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53
  return static_cast<double>(CounterRandom(seed, which.prompt).integer(which.position) >> 11U) * kUnit;
}

/// How many of the weights, largest first, it takes to reach this share of `total`.
std::size_t count_to_reach(std::span<const double> weights, double share, double total) {
  double sum = 0;
  for (std::size_t count = 0; count < weights.size(); ++count) {
    sum += weights[count];
    if (sum >= share * total) return count + 1;
  }
  return weights.size();
}

}  // namespace

std::int32_t next_token(std::span<const float> logits, const SamplingOptions& options,
                        const DrawnFor& which) {
  const auto likelihood = [&](std::int32_t id) {
    const float logit = logits[static_cast<std::size_t>(id)];
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  const auto is_likelier = [&](std::int32_t a, std::int32_t b) {
    return likelihood(a) > likelihood(b) || (likelihood(a) == likelihood(b) && a < b);
  };
  if (options.temperature == 0) {
    std::int32_t best = 0;
    for (std::int32_t id = 1; id < std::ssize(logits); ++id)
      if (likelihood(id) > likelihood(best)) best = id;
    return best;
  }
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::sort(ids, is_likelier);
  if (!std::isfinite(likelihood(ids.front()))) return ids.front();
  if (options.top_k > 0 && options.top_k < std::ssize(ids))
    ids.resize(static_cast<std::size_t>(options.top_k));
  std::vector<double> weights;
  for (const std::int32_t id : ids)
    weights.push_back(
        std::exp((static_cast<double>(likelihood(id)) - likelihood(ids.front())) / options.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options.top_p < 1) {
    weights.resize(count_to_reach(weights, options.top_p, total));
    total = std::accumulate(weights.begin(), weights.end(), 0.0);
  }
  // A share below 1 of the sum is reached.
  return ids[count_to_reach(weights, uniform(options.seed, which), total) - 1];
}

}  // namespace strata
