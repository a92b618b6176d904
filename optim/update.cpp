#include "optim/update.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>

#include "base/nth.h"
#include "base/random.h"
#include "base/storage_type.h"
#include "optim/average.h"
#include "optim/state_parts.h"
#include "optim/stochastic_rounding.h"
#include "optim/update_kernel.h"

namespace strata {
namespace {

/// From here on a step's state does not fit the private caches, and writing the parameter past them wins.
constexpr std::int64_t kStreamFrom = 256 * 1024;

/// Separates stochastic rounding from other users of the seed.
constexpr std::uint64_t kRoundingStream = 0x6d6f6d656e7473;

template <typename Value>
Value stored_moment(float value, std::uint32_t random) {
  if constexpr (std::is_same_v<Value, float>) {
    return value;
  } else {
    return round_stochastically(value, random);
  }
}

template <int count>
using Floats = std::array<float, count>;

/// -1, 0 or 1; 0 for NaN.
float sign(float value) {
  return static_cast<float>(value > 0) - static_cast<float>(value < 0);
}

/// Adam's moments get the gradient; returns what a step is divided by. For AdamW and AdEMAMix.
template <typename Coefficients>
float adam_denominator(const Coefficients& s, float gradient, float& exp_avg, float& exp_avg_sq) {
  exp_avg = s.beta1 * exp_avg + s.one_minus_beta1 * gradient;
  exp_avg_sq = s.beta2 * exp_avg_sq + s.one_minus_beta2 * (gradient * gradient);
  return std::sqrt(exp_avg_sq) * s.inverse_correction2 + s.epsilon;
}

/// Each gives the new master and changes the rule's moments.
float moved(const AdamWCoefficients& s, float gradient, float master, Floats<2>& moments) {
  auto& [exp_avg, exp_avg_sq] = moments;
  const float denominator = adam_denominator(s, gradient, exp_avg, exp_avg_sq);
  return s.keep * master - s.step_size * (exp_avg / denominator);
}

float moved(const SgdCoefficients& s, float gradient, float master, Floats<0>& /*none*/) {
  return master - s.learning_rate * (gradient + s.weight_decay * master);
}

float moved(const SgdCoefficients& s, float gradient, float master, Floats<1>& buffer) {
  buffer[0] = s.momentum * buffer[0] + (gradient + s.weight_decay * master);
  return master - s.learning_rate * buffer[0];
}

float moved(const LionCoefficients& s, float gradient, float master, Floats<1>& exp_avg) {
  const float direction = s.beta1 * exp_avg[0] + s.one_minus_beta1 * gradient;
  exp_avg[0] = s.beta2 * exp_avg[0] + s.one_minus_beta2 * gradient;
  return s.keep * master - s.learning_rate * sign(direction);
}

/// The gradient with what decays the weights, divided by the root of `squares`, which get its square first.
float divided(const RootCoefficients& s, float gradient, float master, float& squares) {
  const float decayed = gradient + s.weight_decay * master;
  squares = s.keep_squares * squares + s.add_square * (decayed * decayed);
  return decayed / (std::sqrt(squares) + s.epsilon);
}

float moved(const RootCoefficients& s, float gradient, float master, Floats<1>& squares) {
  return master - s.learning_rate * divided(s, gradient, master, squares[0]);
}

float moved(const RootCoefficients& s, float gradient, float master, Floats<2>& moments) {
  auto& [buffer, squares] = moments;
  buffer = s.momentum * buffer + divided(s, gradient, master, squares);
  return master - s.learning_rate * buffer;
}

float moved(const AdemamixCoefficients& s, float gradient, float master, Floats<3>& moments) {
  auto& [exp_avg, exp_avg_sq, exp_avg_slow] = moments;
  const float denominator = adam_denominator(s, gradient, exp_avg, exp_avg_sq);
  exp_avg_slow = s.beta3 * exp_avg_slow + s.one_minus_beta3 * gradient;
  const float mixture = exp_avg * s.inverse_correction1 + s.alpha * exp_avg_slow;
  return s.keep * master - s.learning_rate * (mixture / denominator);
}

/// `direction`: what stands in the gradient's place.
float moved(const DirectionCoefficients& s, float direction, float master, Floats<0>& /*none*/) {
  return s.keep * master - s.learning_rate * direction;
}

/// What a rule multiplies the stored gradient by.
template <typename Coefficients>
float gradient_factor(const Coefficients& s) {
  return s.gradient_scale;
}
float gradient_factor(const DirectionCoefficients& /*a direction has its length*/) {
  return 1;
}

template <UpdateRule rule, typename Precision, typename Master, typename Stored>
void update_plainly(const UpdateCoefficients& step, const OptimizerState& state) {
  constexpr int kCount = stepped_moments(rule).count();
  const auto& s = step.of<rule>();
  auto* masters = static_cast<Master*>(state.master);
  auto* parameters = static_cast<Precision*>(state.parameter);
  const auto* gradients = static_cast<const Precision*>(state.gradient);
  std::array<Stored*, kCount> stored = {};
  for (int k = 0; k < kCount; ++k) stored[k] = static_cast<Stored*>(state.of(stepped_moments(rule).at(k)));
  const std::uint32_t key = rounding_key(s.rounding, state.unit);
  for (std::int64_t i = 0; i < state.elements; ++i) {
    Floats<kCount> moments = {};
    for (int k = 0; k < kCount; ++k) moments[k] = static_cast<float>(stored[k][i]);
    const float gradient = static_cast<float>(gradients[i]) * gradient_factor(s);
    const std::uint32_t random = mix_bits(key + static_cast<std::uint32_t>(state.first + i));
    if constexpr (std::is_same_v<Master, Remainder>) {
      const SplitMaster halves =
          split_master(moved(s, gradient, join_master(parameters[i], masters[i]), moments));
      parameters[i] = halves.parameter;
      masters[i] = halves.remainder;
    } else if constexpr (std::is_same_v<Master, bfloat16>) {
      masters[i] = round_stochastically(moved(s, gradient, static_cast<float>(masters[i]), moments),
                                        random_half_of_master(random));
    } else {
      masters[i] = moved(s, gradient, masters[i], moments);
      if constexpr (!std::is_same_v<Precision, float>) parameters[i] = Precision(masters[i]);
    }
    for (int k = 0; k < kCount; ++k) stored[k][i] = stored_moment<Stored>(moments[k], random_half(random, k));
  }
}

/// What decoupled weight decay leaves of a parameter.
float keep(const UpdateStep& step, double learning_rate) {
  return static_cast<float>(1 - learning_rate * static_cast<float>(step.policy.weight_decay));
}

/// What a rate of decay leaves to what is new.
float one_minus(double rate) {
  return static_cast<float>(1 - rate);
}

/// `rate`, as the policy has it.
AdamWCoefficients adamw_coefficients(const UpdateStep& step, float rate, std::uint32_t rounding) {
  const RuleSettings& settings = step.policy.settings;
  const double beta1 = settings.beta1, beta2 = settings.beta2, learning_rate = rate;
  const auto count = static_cast<double>(step.step);
  return {.gradient_scale = step.gradient_scale,
          .keep = keep(step, learning_rate),
          .beta1 = static_cast<float>(settings.beta1),
          .one_minus_beta1 = one_minus(beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .one_minus_beta2 = one_minus(beta2),
          .inverse_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, count))),
          .epsilon = static_cast<float>(settings.epsilon),
          .step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1, count))),
          .rounding = rounding};
}

AdemamixCoefficients ademamix_coefficients(const UpdateStep& step, float rate, std::uint32_t rounding) {
  const RuleSettings& settings = step.policy.settings;
  const double beta1 = settings.beta1, beta2 = settings.beta2;
  const auto count = static_cast<double>(step.step);
  double alpha = settings.alpha, beta3 = settings.beta3;
  if (settings.slow_warmup > step.step) {
    // The mean's half-life rises linearly, from that of beta1 on: section 3.1 of the paper.
    const double part = count / static_cast<double>(settings.slow_warmup);
    const double log1 = std::log(beta1), log3 = std::log(beta3);
    alpha *= part;
    beta3 = std::min(beta3, std::exp(log1 * log3 / ((1 - part) * log3 + part * log1)));
  }
  return {.gradient_scale = step.gradient_scale,
          .keep = keep(step, rate),
          .beta1 = static_cast<float>(settings.beta1),
          .one_minus_beta1 = one_minus(beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .one_minus_beta2 = one_minus(beta2),
          .beta3 = static_cast<float>(beta3),
          .one_minus_beta3 = one_minus(beta3),
          .inverse_correction1 = static_cast<float>(1 / (1 - std::pow(beta1, count))),
          .inverse_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, count))),
          .alpha = static_cast<float>(alpha),
          .epsilon = static_cast<float>(settings.epsilon),
          .learning_rate = rate,
          .rounding = rounding};
}

LionCoefficients lion_coefficients(const UpdateStep& step, float rate, std::uint32_t rounding) {
  const RuleSettings& settings = step.policy.settings;
  return {.gradient_scale = step.gradient_scale,
          .keep = keep(step, rate),
          .beta1 = static_cast<float>(settings.beta1),
          .one_minus_beta1 = one_minus(settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .one_minus_beta2 = one_minus(settings.beta2),
          .learning_rate = rate,
          .rounding = rounding};
}

RootCoefficients root_coefficients(const UpdateStep& step, float rate, std::uint32_t rounding) {
  const RuleSettings& settings = step.policy.settings;
  const bool sums = step.policy.rule == UpdateRule::adagrad;
  return {.gradient_scale = step.gradient_scale,
          .weight_decay = static_cast<float>(step.policy.weight_decay),
          .keep_squares = sums ? 1 : static_cast<float>(settings.alpha),
          .add_square = sums ? 1 : one_minus(settings.alpha),
          .epsilon = static_cast<float>(settings.epsilon),
          .momentum = static_cast<float>(settings.momentum),
          .learning_rate = rate,
          .rounding = rounding};
}

DirectionCoefficients direction_coefficients(const UpdateStep& step, float rate, std::uint32_t rounding) {
  const RuleSettings& settings = step.policy.settings;
  const UpdateRule rule = step.policy.rule;
  double keep_squares = 1, add_square = 1;  // of adagrad_rowwise
  if (rule == UpdateRule::normuon) {
    keep_squares = settings.beta2;
    add_square = 1 - settings.beta2;
  } else if (rule == UpdateRule::adafactor) {
    add_square = std::pow(static_cast<double>(step.step), settings.decay_rate);
    keep_squares = 1 - add_square;
  }
  return {.gradient_scale = step.gradient_scale,
          .new_part = one_minus(settings.momentum),
          .factored_scale = orthogonalizes(rule) ? 1 : step.gradient_scale,
          .keep_squares = static_cast<float>(keep_squares),
          .add_square = static_cast<float>(add_square),
          .epsilon = static_cast<float>(settings.epsilon),
          .clip_threshold = static_cast<float>(settings.clip_threshold),
          .keep = keep(step, rate),
          .learning_rate = static_cast<float>(rate * settings.scale),
          .rounding = rounding};
}

}  // namespace

UpdateCoefficients coefficients(const UpdateStep& step) {
  assert(step.step >= 1);
  const UpdatePolicy& policy = step.policy;
  const auto rate = static_cast<float>(policy.learning_rate_factor * step.learning_rate);
  const CounterRandom random(step.seed, kRoundingStream);
  const std::uint32_t rounding = random.words(static_cast<std::uint64_t>(step.step))[0];
  switch (policy.rule) {
    case UpdateRule::adamw:
      return {.adamw = adamw_coefficients(step, rate, rounding)};
    case UpdateRule::sgd:
    case UpdateRule::sgd_momentum:
      return {.sgd = {.gradient_scale = step.gradient_scale,
                      .weight_decay = static_cast<float>(policy.weight_decay),
                      .momentum = static_cast<float>(policy.settings.momentum),
                      .learning_rate = rate,
                      .rounding = rounding}};
    case UpdateRule::lion:
      return {.lion = lion_coefficients(step, rate, rounding)};
    case UpdateRule::rmsprop:
    case UpdateRule::rmsprop_momentum:
    case UpdateRule::adagrad:
      return {.root = root_coefficients(step, rate, rounding)};
    case UpdateRule::ademamix:
      return {.ademamix = ademamix_coefficients(step, rate, rounding)};
    case UpdateRule::muon:
    case UpdateRule::normuon:
    case UpdateRule::adafactor:
    case UpdateRule::adagrad_rowwise:
      return {.direction = direction_coefficients(step, rate, rounding)};
  }
  return {};
}

void update(const UpdateCoefficients& step, const OptimizerState& state,
            const AverageCoefficients& averaged) {
  assert(state.format.master == MasterFormat::fp32 || state.precision == DType::bf16);
  const bool stream = state.elements >= kStreamFrom;
  const std::uint32_t rounding =
      with_rule(state.rule, [&]<UpdateRule rule>(RuleConstant<rule>) { return step.of<rule>().rounding; });
  for_chunks(state, [&](const OptimizerState& chunk) {
    with_decoded(chunk, stepped_moments(state.rule), rounding, MomentCoder(),
                 [&](const OptimizerState& part) { update_kernel(step, part, stream); });
    average(averaged, chunk);
  });
}

void round_masters(const OptimizerState& state) {
  if (!state.format.is_rounded_copy(state.precision)) return;
  const std::span masters = span_of(static_cast<const float*>(state.master), state.elements);
  with_storage_type(state.precision, [&]<typename T>(T) {
    std::ranges::transform(masters, static_cast<T*>(state.parameter), [](float master) { return T(master); });
  });
}

void update_reference(const UpdateCoefficients& step, const OptimizerState& state,
                      const AverageCoefficients& averaged) {
  with_rule(state.rule, [&]<UpdateRule rule>(RuleConstant<rule>) {
    with_decoded(state, stepped_moments(rule), step.of<rule>().rounding, kPlainCoder,
                 [&](const OptimizerState& part) {
                   with_state_types(
                       part.precision, part.format,
                       [&]<typename Precision, typename Master, typename Stored>(Precision, Master, Stored) {
                         update_plainly<rule, Precision, Master, Stored>(step, part);
                       });
                 });
  });
  average(averaged, state);
}

}  // namespace strata
