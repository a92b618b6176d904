// How a tensor is updated. A policy belongs to a whole tensor with its shape, which is known where the tensor
// is (engine/model/graph/unit.h): a stretch of a flat parameter has forgotten it.
#pragma once

#include <cstddef>

#include "optim/update_rule.h"

namespace strata {

/// What rules are set to, besides rate and decay. Each rule reads its own.
struct RuleSettings {
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, alpha = 0.99F, momentum = 0;
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

}  // namespace strata
