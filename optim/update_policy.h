// How a tensor is updated. A policy belongs to a whole tensor with its shape, which is known where the tensor
// is (engine/graph/unit.h): a stretch of a flat parameter has forgotten it.
#pragma once

#include "optim/update_rule.h"

namespace strata {

struct UpdatePolicy {
  UpdateRule rule = UpdateRule::adamw;
  double learning_rate_factor = 1;  ///< on the schedule's rate
  double weight_decay = 0;
  friend bool operator==(const UpdatePolicy&, const UpdatePolicy&) = default;
};

}  // namespace strata
