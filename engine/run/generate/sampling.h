// Which token follows, by a row of logits: the likeliest, or one that is drawn. Plain functions; any thread.
#pragma once

#include <cstdint>
#include <span>

namespace strata {

struct SamplingOptions {
  double temperature = 0;  ///< logits are divided by it; 0: the likeliest token
  double top_p = 1;        ///< of the likeliest tokens the fewest whose probabilities reach it; 1: all
  std::int64_t top_k = 0;  ///< the number of likeliest tokens to draw from; 0: all
  std::uint64_t seed = 0;
};

/// What a number is drawn for: equal ones get equal numbers on any machine.
struct DrawnFor {
  std::uint64_t prompt = 0;    ///< its number
  std::uint64_t position = 0;  ///< of the token in its sequence
};

/// If logits are equal, the smaller id counts as likelier; a NaN is never taken unless there is nothing else.
/// Probabilities are in double precision; tokens are drawn in the order of their likelihood, by Philox.
std::int32_t next_token(std::span<const float> logits, const SamplingOptions& options, const DrawnFor& which);

}  // namespace strata
