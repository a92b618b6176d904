// The optimizer section of a run file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/choices.h"
#include "engine/config/schedule_section.h"

namespace strata {

/// An entry of optimizer.groups: what it gives counts for the tensors whose names its patterns match.
struct TensorGroup {
  std::vector<std::string> tensors;
  std::optional<double> learning_rate_factor = {}, weight_decay = {};
  std::optional<ScheduleSection> schedule = {};
  friend bool operator==(const TensorGroup&, const TensorGroup&) = default;
};

struct OptimizerSection {
  OptimizerType type = OptimizerType::adamw;
  double learning_rate = 3e-4;
  std::optional<std::array<double, 2>> betas = {};  ///< of adamw and lion; read them by betas_of()
  std::optional<double> epsilon = {};               ///< read it by epsilon_of()
  double alpha = 0.99;                              ///< of rmsprop
  double momentum = 0;                              ///< of sgd and rmsprop
  double weight_decay = 0.1;
  Decay decay = Decay::matrices;
  std::vector<TensorGroup> groups;  ///< a later one overrides those before it
  double clip_norm = 1.0;           ///< 0: no clipping
  ClipBy clip_by = ClipBy::step;
  MasterFormat master = MasterFormat::fp32;
  MomentFormat moments = MomentFormat::fp32;
  friend bool operator==(const OptimizerSection&, const OptimizerSection&) = default;
};

/// Whether an update waits for the norm of all gradients of its step, by which they are clipped.
constexpr bool clips_by_own_norm(const OptimizerSection& optimizer) {
  return optimizer.clip_norm > 0 && optimizer.clip_by == ClipBy::step;
}

/// The section's betas, or the type's.
constexpr std::array<double, 2> betas_of(const OptimizerSection& optimizer) {
  const bool is_lion = optimizer.type == OptimizerType::lion;
  return optimizer.betas.value_or(is_lion ? std::array{0.9, 0.99} : std::array{0.9, 0.95});
}

/// The section's epsilon, or the type's.
constexpr double epsilon_of(const OptimizerSection& optimizer) {
  return optimizer.epsilon.value_or(optimizer.type == OptimizerType::adagrad ? 1e-10 : 1e-8);
}

}  // namespace strata
