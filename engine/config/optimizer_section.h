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
  std::optional<OptimizerType> type = {};  ///< of a run with muon or normuon: that or adamw
  friend bool operator==(const TensorGroup&, const TensorGroup&) = default;
};

struct OptimizerSection {
  OptimizerType type = OptimizerType::adamw;
  double learning_rate = 3e-4;
  std::optional<std::array<double, 2>> betas = {};  ///< of adamw, ademamix and lion; see betas_of()
  double beta3 = 0.9999;                            ///< of ademamix
  std::int64_t slow_warmup = 0;                     ///< of ademamix; updates
  std::optional<double> epsilon = {};               ///< read it by epsilon_of()
  std::optional<double> alpha = {};                 ///< of rmsprop and ademamix; see alpha_of()
  std::optional<double> momentum = {};              ///< read it by momentum_of()
  MuonScaling muon_scaling = MuonScaling::match_rms_adamw;
  double decay_rate = -0.8;   ///< of adafactor
  double clip_threshold = 1;  ///< of adafactor
  double weight_decay = 0.1;
  Decay decay = Decay::matrices;
  std::vector<TensorGroup> groups;  ///< a later one overrides those before it
  double clip_norm = 1.0;           ///< 0: no clipping
  ClipBy clip_by = ClipBy::step;
  MasterFormat master = MasterFormat::fp32;
  MomentFormat moments = MomentFormat::fp32;
  /// Whether a user may want to know which tensors are updated how.
  bool has_several_policies() const { return !groups.empty() || orthogonalizes(type); }
  friend bool operator==(const OptimizerSection&, const OptimizerSection&) = default;
};

/// Whether gradients are clipped by the norm of all of their step.
constexpr bool clips_by_own_norm(const OptimizerSection& optimizer) {
  return optimizer.clip_norm > 0 && optimizer.clip_by == ClipBy::step;
}

/// The section's betas, or the type's.
constexpr std::array<double, 2> betas_of(const OptimizerSection& optimizer) {
  switch (optimizer.type) {
    case OptimizerType::lion:
      return optimizer.betas.value_or(std::array{0.9, 0.99});
    case OptimizerType::ademamix:
      return optimizer.betas.value_or(std::array{0.9, 0.999});
    default:
      return optimizer.betas.value_or(std::array{0.9, 0.95});
  }
}

/// The section's epsilon, or the type's.
constexpr double epsilon_of(const OptimizerSection& optimizer) {
  switch (optimizer.type) {
    case OptimizerType::adagrad:
    case OptimizerType::adagrad_rowwise:
      return optimizer.epsilon.value_or(1e-10);
    case OptimizerType::adafactor:
      return optimizer.epsilon.value_or(1e-30);
    default:
      return optimizer.epsilon.value_or(1e-8);
  }
}

/// The section's alpha, or the type's: the decay rate of rmsprop, or the weight of ademamix's slow mean.
constexpr double alpha_of(const OptimizerSection& optimizer) {
  return optimizer.alpha.value_or(optimizer.type == OptimizerType::ademamix ? 5 : 0.99);
}

/// The section's momentum, or the type's.
constexpr double momentum_of(const OptimizerSection& optimizer) {
  return optimizer.momentum.value_or(orthogonalizes(optimizer.type) ? 0.95 : 0);
}

}  // namespace strata
