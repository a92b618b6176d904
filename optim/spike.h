// Steps whose gradients are far larger than those of the steps before. One bad batch can undo much of what a
// model has learned, so such a step may be skipped. A run that goes on from a checkpoint decides alike, since
// Counters are all that is remembered.
#pragma once

#include <algorithm>
#include <cstdint>

#include "optim/counters.h"

namespace strata {

struct SpikeSettings {
  double factor = 0;          ///< on the mean; 0: nothing is a spike
  std::int64_t window = 100;  ///< steps that the mean forgets others in
};

/// Whether a finite norm of gradients is a spike. None is before `window` steps have updated, or without a
/// mean, which older checkpoints lack.
constexpr bool is_spike(const SpikeSettings& settings, const Counters& before, double norm) {
  return settings.factor > 0 && before.updates >= settings.window && before.mean_norm > 0 &&
         norm > settings.factor * before.mean_norm;
}

/// Counters::mean_norm behind a step with a finite norm. A spike counts as the largest norm that is none, so
/// the mean follows norms that stay high.
constexpr double next_mean_norm(const SpikeSettings& settings, const Counters& before, double norm) {
  if (before.mean_norm == 0) return norm;
  if (is_spike(settings, before, norm)) norm = settings.factor * before.mean_norm;
  const auto steps = static_cast<double>(std::min(before.updates + 1, settings.window));
  return before.mean_norm + (norm - before.mean_norm) / steps;
}

}  // namespace strata
