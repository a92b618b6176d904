#include "engine/run/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/nth.h"
#include "base/random.h"

namespace strata {
namespace {

/// In [0, 1).
double uniform(std::uint64_t seed, const DrawnFor& which) {
  constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53
  return static_cast<double>(CounterRandom(seed, which.prompt).integer(which.position) >> 11U) * kUnit;
}

}  // namespace

std::int32_t next_token(std::span<const float> logits, const SamplingOptions& options,
                        const DrawnFor& which) {
  const auto likelihood = [&](std::int32_t id) {
    const float logit = nth(logits, id);
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  const auto is_likelier = [&](std::int32_t a, std::int32_t b) {
    return likelihood(a) > likelihood(b) || (likelihood(a) == likelihood(b) && a < b);
  };
  const auto is_unlikelier = [&](std::int32_t a, std::int32_t b) { return is_likelier(b, a); };
  std::int32_t best = 0;
  for (std::int32_t id = 1; id < std::ssize(logits); ++id)
    if (likelihood(id) > likelihood(best)) best = id;
  if (options.temperature == 0 || !std::isfinite(likelihood(best))) return best;
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (options.top_k > 0 && options.top_k < std::ssize(ids)) {
    std::ranges::partial_sort(ids, ids.begin() + options.top_k, is_likelier);
    resize(ids, options.top_k);
  }
  const auto weight = [&](std::int32_t id) {
    return std::exp((double{likelihood(id)} - likelihood(best)) / options.temperature);
  };
  double total = 0;
  for (const std::int32_t id : ids) total += weight(id);
  const double drawn = uniform(options.seed, which);

  // A heap, since few of them all are looked at: the likeliest, until their sum reaches the share.
  std::ranges::make_heap(ids, is_unlikelier);
  const double share = options.top_p < 1 ? options.top_p : drawn;
  auto end = ids.end();
  double sum = 0;
  do {
    std::ranges::pop_heap(ids.begin(), end, is_unlikelier);
    sum += weight(*--end);
  } while (sum < share * total && end != ids.begin());
  if (options.top_p >= 1) return *end;
  auto chosen = ids.end();  // from the likeliest down
  for (double reached = 0; reached <= drawn * sum && chosen != end;) reached += weight(*--chosen);
  return *chosen;
}

}  // namespace strata
