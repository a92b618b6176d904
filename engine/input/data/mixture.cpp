#include "engine/input/data/mixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "base/error.h"
#include "base/nth.h"

namespace strata {
namespace {

/// Whole numbers with the sum kLongestCycle, the nearest to the weights: what is left goes to the largest
/// remainders.
std::vector<std::int64_t> rounded_shares(std::span<const double> weights, double sum) {
  constexpr auto kCycle = static_cast<double>(Mixture::kLongestCycle);
  std::vector<std::int64_t> shares;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / sum * kCycle;
    shares.push_back(static_cast<std::int64_t>(std::floor(exact)));
    remainders.emplace_back(std::floor(exact) - exact, i);
  }
  std::ranges::sort(remainders);
  const std::int64_t left = Mixture::kLongestCycle - std::reduce(shares.begin(), shares.end());
  for (std::int64_t i = 0; i < left; ++i) ++shares[nth(remainders, i).second];
  return shares;
}

/// The weights as multiples of a power of ten, as people write them; empty if that makes no cycle.
std::vector<std::int64_t> decimal_shares(std::span<const double> weights) {
  for (double scale = 1; scale <= 1e6; scale *= 10) {
    std::vector<std::int64_t> shares;
    for (const double weight : weights) {
      const double scaled = weight * scale, whole = std::round(scaled);
      if (std::abs(scaled - whole) > 1e-9 * whole || whole > static_cast<double>(Mixture::kLongestCycle))
        break;
      shares.push_back(static_cast<std::int64_t>(whole));
    }
    if (shares.size() == weights.size()) return shares;
  }
  return {};
}

void reduce(std::vector<std::int64_t>& shares) {
  std::int64_t divisor = 0;
  for (const std::int64_t share : shares) divisor = std::gcd(divisor, share);
  for (std::int64_t& share : shares) share /= divisor;
}

}  // namespace

std::vector<std::int64_t> shares_of(std::span<const double> weights) {
  const double sum = std::reduce(weights.begin(), weights.end());
  const double least = *std::ranges::min_element(weights);
  if (!(least / sum * static_cast<double>(Mixture::kLongestCycle) >= 1))
    throw ConfigError(
        fmt::format("data.sources: the weight {} is less than a millionth of all weights' sum, {}: raise it, "
                    "or leave its "
                    "source out",
                    least, sum));
  std::vector<std::int64_t> shares = decimal_shares(weights);
  if (!shares.empty()) reduce(shares);
  if (shares.empty() || std::reduce(shares.begin(), shares.end()) > Mixture::kLongestCycle) {
    shares = rounded_shares(weights, sum);
    reduce(shares);
  }
  return shares;
}

Mixture::Mixture(std::vector<std::int64_t> shares) : shares_(std::move(shares)) {
  const std::int64_t cycle = std::reduce(shares_.begin(), shares_.end());
  assert(cycle <= kLongestCycle);
  places_.reserve(static_cast<std::size_t>(cycle));
  // The next sample of each source, by when it may stand at the earliest, or by its end.
  struct Next {
    std::int64_t when;
    std::uint32_t source;
    bool operator>(const Next& other) const {
      return std::pair(when, source) > std::pair(other.when, other.source);
    }
  };
  using Queue = std::priority_queue<Next, std::vector<Next>, std::greater<>>;
  Queue waiting, ready;
  std::vector<std::uint32_t> taken(shares_.size(), 0);
  for (std::uint32_t source = 0; source < shares_.size(); ++source) waiting.push({0, source});
  for (std::int64_t at = 0; at < cycle; ++at) {
    while (!waiting.empty() && waiting.top().when <= at) {
      const std::uint32_t source = waiting.top().source;
      const std::int64_t share = shares_[source];
      ready.push({((taken[source] + 1) * cycle + share - 1) / share, source});
      waiting.pop();
    }
    const std::uint32_t source = ready.top().source;
    ready.pop();
    places_.push_back({source, taken[source]++});
    if (taken[source] < shares_[source]) waiting.push({taken[source] * cycle / shares_[source], source});
  }
}

Mixture::Place Mixture::place(std::int64_t sample) const {
  const auto [source, index] = nth(places_, sample % cycle());
  return {source, sample / cycle() * shares_[source] + index};
}

std::int64_t Mixture::count(std::size_t source, std::int64_t samples) const {
  const auto begun = slice(places_, 0, samples % cycle());
  return samples / cycle() * shares_[source] + std::ranges::count(begun, source, &PlaceInCycle::source);
}

}  // namespace strata
