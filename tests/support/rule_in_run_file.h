// How a run file asks for a rule of updates. Beside Muon there is AdamW.
#pragma once

#include <optional>

#include "base/enum_array.h"
#include "engine/config/choices.h"
#include "engine/config/optimizer_section.h"
#include "optim/update_rule.h"

namespace strata::test {

/// Sets type and momentum, which is 0.9 where the rule has one.
inline void set_rule(OptimizerSection& optimizer, UpdateRule rule) {
  using enum OptimizerType;
  constexpr EnumTable<UpdateRule, OptimizerType> kTypes = {
      adamw, sgd, sgd, lion, rmsprop, rmsprop, adagrad, ademamix, muon, normuon, adafactor, adagrad_rowwise};
  const bool has_momentum = rule == UpdateRule::sgd_momentum || rule == UpdateRule::rmsprop_momentum;
  optimizer.type = kTypes[rule];
  optimizer.momentum = has_momentum ? std::optional(0.9) : std::nullopt;
}

}  // namespace strata::test
