// What one step's updates need besides the state, as plain values that a device can read from its memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "optim/update_rule.h"

namespace strata {

/// An AdamW step's settings with everything that does not depend on the element folded, in double precision,
/// then rounded once.
struct AdamWCoefficients {
  float gradient_scale;  ///< unscale × clip: what the stored gradient is multiplied by
  float keep;            ///< 1 - lr·wd
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float inverse_correction2;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
  float step_size;         ///< lr / (1 - beta1^t)
  std::uint32_t rounding;  ///< of seed and t: see stochastic_rounding.h
};

/// The scalars of one SGD step, with or without momentum.
struct SgdCoefficients {
  float gradient_scale, weight_decay, momentum, learning_rate;
  std::uint32_t rounding;
};

/// The scalars of one Lion step.
struct LionCoefficients {
  float gradient_scale;
  float keep;  ///< 1 - lr·wd
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float learning_rate;
  std::uint32_t rounding;
};

/// The scalars of one step of a rule that divides by the root of squares: RMSprop, with or without momentum,
/// and Adagrad.
struct RootCoefficients {
  float gradient_scale, weight_decay;
  float keep_squares, add_square;  ///< alpha and 1 - alpha of RMSprop; 1 and 1 of Adagrad
  float epsilon, momentum, learning_rate;
  std::uint32_t rounding;
};

/// The scalars of one AdEMAMix step.
struct AdemamixCoefficients {
  float gradient_scale;
  float keep;  ///< 1 - lr·wd
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float beta3, one_minus_beta3;  ///< of this step, as alpha
  float inverse_correction1;     ///< 1 / (1 - beta1^t)
  float inverse_correction2;     ///< 1 / sqrt(1 - beta2^t)
  float alpha, epsilon, learning_rate;
  std::uint32_t rounding;
};

/// The scalars of one step of a rule that needs whole tensors.
struct DirectionCoefficients {
  float gradient_scale;
  float new_part;                  ///< 1 - momentum: of the gradient in the momentum buffer
  float factored_scale;            ///< what is multiplied by it is squared for the factors
  float keep_squares, add_square;  ///< parts of the factors and of new squares in the next factors
  float epsilon;
  float clip_threshold;  ///< of Adafactor: the largest root mean square of a direction
  float keep;            ///< 1 - lr·wd
  float learning_rate;   ///< times the policy's scale
  std::uint32_t rounding;
};

/// The coefficients of one update rule; its user knows which. Rules with the same coefficients and as many
/// moments have the same formula, and so the same code in every implementation.
union UpdateCoefficients {
  AdamWCoefficients adamw;
  SgdCoefficients sgd;
  LionCoefficients lion;
  RootCoefficients root;
  AdemamixCoefficients ademamix;
  DirectionCoefficients direction;

  template <UpdateRule rule>
  constexpr const auto& of() const {
    if constexpr (rule == UpdateRule::adamw) {
      return adamw;
    } else if constexpr (rule == UpdateRule::sgd || rule == UpdateRule::sgd_momentum) {
      return sgd;
    } else if constexpr (rule == UpdateRule::lion) {
      return lion;
    } else if constexpr (rule == UpdateRule::ademamix) {
      return ademamix;
    } else if constexpr (needs_whole_tensors(rule)) {
      return direction;
    } else {
      return root;
    }
  }
};

/// The scalars of one update's average.
struct AverageCoefficients {
  float weight = 0;            ///< of the parameter; the average before has the rest. 0: nothing is averaged
  std::uint32_t rounding = 0;  ///< of seed and t, apart from those of updates
};

/// What the gradient's norm decides for updates, in a host's or a device's memory: `skip`, and behind it the
/// average's coefficients and those of each policy. The global norm decides for all units, or a unit's own
/// norm for that unit.
class StepScalars {
 public:
  static constexpr std::size_t bytes(std::size_t policies) {
    return kBeforePolicies + policies * sizeof(UpdateCoefficients);
  }

  explicit StepScalars(std::byte* begin) : begin_(begin) {}

  /// Not 0: the gradient is not finite, nothing is updated.
  std::uint32_t* skip() const { return reinterpret_cast<std::uint32_t*>(begin_); }
  AverageCoefficients* average() const {
    return reinterpret_cast<AverageCoefficients*>(begin_ + sizeof(std::uint32_t));
  }
  UpdateCoefficients* of_policy(std::size_t policy) const {
    return reinterpret_cast<UpdateCoefficients*>(begin_ + bytes(policy));
  }

 private:
  static constexpr std::size_t kBeforePolicies = sizeof(std::uint32_t) + sizeof(AverageCoefficients);

  std::byte* begin_;
};

}  // namespace strata
