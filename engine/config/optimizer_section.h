// The optimizer section of a run file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/choices.h"

namespace strata {

/// An entry of optimizer.groups: what it gives counts for the tensors whose names its patterns match.
struct TensorGroup {
  std::vector<std::string> tensors;
  std::optional<double> learning_rate_factor = {}, weight_decay = {};
  friend bool operator==(const TensorGroup&, const TensorGroup&) = default;
};

struct OptimizerSection {
  OptimizerType type = OptimizerType::adamw;
  double learning_rate = 3e-4;
  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1e-8;
  double momentum = 0;  ///< of sgd
  double weight_decay = 0.1;
  Decay decay = Decay::matrices;
  std::vector<TensorGroup> groups;  ///< a later one overrides those before it
  double clip_norm = 1.0;           ///< 0: no clipping
  MasterFormat master = MasterFormat::fp32;
  MomentFormat moments = MomentFormat::fp32;
  ScheduleKind schedule = ScheduleKind::constant;
  std::int64_t warmup = 0;
  double minimum_ratio = 0.1;
  std::int64_t asked_warmup = 0;  ///< of a warm-up that was cut (engine/config/run_length.h). No key sets it.
  friend bool operator==(const OptimizerSection&, const OptimizerSection&) = default;
};

}  // namespace strata
