// How a tensor is updated. A policy belongs to a whole tensor with its shape, which is known where the tensor
// is (engine/model/graph/unit.h): a stretch of a flat parameter has forgotten it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "optim/update_rule.h"

namespace strata {

/// What rules are set to, besides rate and decay. Each rule reads its own.
struct RuleSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, alpha = 0.99, momentum = 0;
  double beta3 = 0.9999;         ///< of ademamix
  std::int64_t slow_warmup = 0;  ///< updates in which its alpha and beta3 rise
  double scale = 1;              ///< of muon and normuon: on the learning rate, but not on the decay
  double decay_rate = -0.8;      ///< of adafactor, as clip_threshold
  double clip_threshold = 1;
  friend bool operator==(const RuleSettings&, const RuleSettings&) = default;
};

struct UpdatePolicy {
  UpdateRule rule = UpdateRule::adamw;
  std::size_t schedule = 0;         ///< number of OptimizerSettings::schedules
  double learning_rate_factor = 1;  ///< on the schedule's rate
  double weight_decay = 0;
  RuleSettings settings = {};
  friend bool operator==(const UpdatePolicy&, const UpdatePolicy&) = default;
};

/// Rules of one model, and how many tensors each updates.
using UpdateRules = std::map<UpdateRule, std::int64_t>;

/// Those of any of the rules, and the moving average if there is one.
inline Moments kept_moments(const UpdateRules& rules, bool averages) {
  Moments moments = averages ? Moments{Moment::ema} : Moments();
  for (const auto& [rule, tensors] : rules) moments = moments | moments_of(rule);
  return moments;
}

inline bool keeps_factors(const UpdateRules& rules) {
  return std::ranges::any_of(rules, [](const auto& rule) { return keeps_factors(rule.first); });
}

}  // namespace strata
