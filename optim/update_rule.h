// The rules by which parameters are updated, and what each keeps of earlier steps: its moments. Code that
// sizes, places, saves or moves state walks the moments that are kept and needs nothing else of the rule.
// Constexpr, so that CUDA code may use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "base/enum_array.h"

namespace strata {

/// An array with the parameters' shape, under the name that PyTorch, or pytorch-optimizer, has for it.
enum class Moment : std::uint8_t {
  exp_avg,
  exp_avg_sq,
  momentum_buffer,
  square_avg,
  sum,
  exp_avg_slow,
  ema  ///< of the parameters themselves, beside any rule: optim/average.h
};
inline constexpr std::array kMoments = {Moment::exp_avg,    Moment::exp_avg_sq, Moment::momentum_buffer,
                                        Moment::square_avg, Moment::sum,        Moment::exp_avg_slow,
                                        Moment::ema};
constexpr const auto& values_of(Moment) {
  return kMoments;
}

constexpr std::string_view name_of(Moment moment) {
  constexpr EnumTable<Moment, std::string_view> kNames = {
      "exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg", "sum", "exp_avg_slow", "ema"};
  return kNames[moment];
}

/// A set of them, in the order of the enumerators.
class Moments {
 public:
  constexpr Moments() = default;
  constexpr Moments(std::initializer_list<Moment> moments) {
    for (const Moment moment : moments) bits_ |= bit(moment);
  }
  constexpr bool has(Moment moment) const { return (bits_ & bit(moment)) != 0; }
  template <typename Visit>
  constexpr void for_each(const Visit& visit) const {
    for (std::size_t i = 0; i < kMoments.size(); ++i) {
      if (has(static_cast<Moment>(i))) visit(static_cast<Moment>(i));
    }
  }
  constexpr int count() const {
    int count = 0;
    for_each([&](Moment) { ++count; });
    return count;
  }
  /// The one with `number` others before it. REQUIRES: number < count().
  constexpr Moment at(int number) const {
    Moment found = {};
    for_each([&](Moment moment) {
      if (number-- == 0) found = moment;
    });
    return found;
  }
  constexpr Moments operator|(Moments other) const {
    other.bits_ = static_cast<std::uint8_t>(other.bits_ | bits_);
    return other;
  }
  friend constexpr bool operator==(const Moments&, const Moments&) = default;

 private:
  static constexpr std::uint8_t bit(Moment moment) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(moment));
  }
  std::uint8_t bits_ = 0;
};

/// theta: parameter, g: gradient, lr: learning rate, wd: weight decay, t: updates so far, from 1. Moments
/// begin as zeros. A rule without momentum is a rule of its own: it keeps one moment less.
enum class UpdateRule : std::uint8_t {
  /// theta -= lr·wd·theta; m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²;
  /// theta -= lr/(1-b1^t) · m / (sqrt(v/(1-b2^t)) + eps)   (Loshchilov & Hutter 2019, torch.optim.AdamW)
  adamw,
  /// theta -= lr · (g + wd·theta)   (torch.optim.SGD)
  sgd,
  /// b = momentum·b + (g + wd·theta); theta -= lr·b   (torch.optim.SGD, whose first b is what is added)
  sgd_momentum,
  /// theta -= lr·wd·theta; theta -= lr · sign(b1·m + (1-b1)·g); m = b2·m + (1-b2)·g   (Chen et al. 2023).
  /// The sign of 0 and of NaN is 0, as torch.sign has it.
  lion,
  /// h = g + wd·theta; v = alpha·v + (1-alpha)·h²; theta -= lr · h / (sqrt(v) + eps)   (torch.optim.RMSprop)
  rmsprop,
  /// h and v as in rmsprop; b = momentum·b + h / (sqrt(v) + eps); theta -= lr·b   (torch.optim.RMSprop)
  rmsprop_momentum,
  /// h = g + wd·theta; s = s + h²; theta -= lr · h / (sqrt(s) + eps)   (torch.optim.Adagrad)
  adagrad,
  /// theta -= lr·wd·theta; m and v as in adamw; n = b3·n + (1-b3)·g;
  /// theta -= lr · (m/(1-b1^t) + alpha·n) / (sqrt(v/(1-b2^t)) + eps)   (AdEMAMix, Pagliardini et al. 2024)
  ademamix,
  /// b = momentum·b + (1-momentum)·g; d = momentum·b + (1-momentum)·g; o: d of a whole matrix with singular
  /// values near 1 (optim/newton_schulz.h); theta -= lr·wd·theta; theta -= lr · scale · o
  /// (Jordan et al. 2024, torch.optim.Muon)
  muon,
  /// b and o as in muon; v = b2·v + (1-b2) · mean of o² over a row; n = o / (sqrt(v) + eps); d = n / rms(n);
  /// theta -= lr·wd·theta; theta -= lr · scale · d   (NorMuon, Li et al. 2025)
  normuon,
  /// h = g² + eps; b = 1 - t^decay_rate; r = b·r + (1-b) · mean of h over a row, c: over a column;
  /// u = g / sqrt(r·c / mean of r); d = u / max(1, rms(u) / clip_threshold); theta -= lr·wd·theta;
  /// theta -= lr · d. A vector has v = b·v + (1-b)·h, and u = g / sqrt(v). (Shazeer & Stern 2018,
  /// transformers.Adafactor with scale_parameter and relative_step false)
  adafactor,
  /// s = s + mean of g² over a row; theta -= lr·wd·theta; theta -= lr · g / (sqrt(s) + eps). A vector has an
  /// s
  /// for each element. (FBGEMM's exact row-wise Adagrad)
  adagrad_rowwise
};
inline constexpr std::array kUpdateRules = {
    UpdateRule::adamw,   UpdateRule::sgd,       UpdateRule::sgd_momentum,
    UpdateRule::lion,    UpdateRule::rmsprop,   UpdateRule::rmsprop_momentum,
    UpdateRule::adagrad, UpdateRule::ademamix,  UpdateRule::muon,
    UpdateRule::normuon, UpdateRule::adafactor, UpdateRule::adagrad_rowwise};
constexpr const auto& values_of(UpdateRule) {
  return kUpdateRules;
}

constexpr std::string_view name_of(UpdateRule rule) {
  constexpr EnumTable<UpdateRule, std::string_view> kNames = {
      "adamw",   "sgd",      "sgd_momentum", "lion",    "rmsprop",   "rmsprop_momentum",
      "adagrad", "ademamix", "muon",         "normuon", "adafactor", "adagrad_rowwise"};
  return kNames[rule];
}

constexpr Moments moments_of(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::adamw:
      return {Moment::exp_avg, Moment::exp_avg_sq};
    case UpdateRule::sgd:
    case UpdateRule::adafactor:
    case UpdateRule::adagrad_rowwise:
      return Moments();  // nvcc 13.0 makes a list of one moment of {}
    case UpdateRule::sgd_momentum:
    case UpdateRule::muon:
    case UpdateRule::normuon:
      return {Moment::momentum_buffer};
    case UpdateRule::lion:
      return {Moment::exp_avg};
    case UpdateRule::rmsprop:
      return {Moment::square_avg};
    case UpdateRule::rmsprop_momentum:
      return {Moment::momentum_buffer, Moment::square_avg};
    case UpdateRule::adagrad:
      return {Moment::sum};
    case UpdateRule::ademamix:
      return {Moment::exp_avg, Moment::exp_avg_sq, Moment::exp_avg_slow};
  }
  return Moments();
}

/// Whether a step needs the gradient of a whole tensor, to make of it the direction that update() takes a
/// step along. The direction stands in the gradient's place.
constexpr bool needs_whole_tensors(UpdateRule rule) {
  return rule >= UpdateRule::muon;
}

/// Whether it has steps of orthogonalized matrices. Then mix_momentum() (optim/momentum.h) comes before.
constexpr bool orthogonalizes(UpdateRule rule) {
  return rule == UpdateRule::muon || rule == UpdateRule::normuon;
}

/// Whether it keeps sums or means of squares for each row of a matrix, or also each column: the factors of
/// its tensors.
constexpr bool keeps_factors(UpdateRule rule) {
  return needs_whole_tensors(rule) && rule != UpdateRule::muon;
}

/// What mix_momentum() changes.
inline constexpr Moment kMixedMoment = Moment::momentum_buffer;

/// Those that update() changes.
constexpr Moments stepped_moments(UpdateRule rule) {
  return orthogonalizes(rule) ? Moments() : moments_of(rule);
}

template <UpdateRule rule>
using RuleConstant = std::integral_constant<UpdateRule, rule>;

/// body(RuleConstant<rule>()); returns what it returns.
template <typename Body>
decltype(auto) with_rule(UpdateRule rule, const Body& body) {
  switch (rule) {
    case UpdateRule::sgd:
      return body(RuleConstant<UpdateRule::sgd>());
    case UpdateRule::sgd_momentum:
      return body(RuleConstant<UpdateRule::sgd_momentum>());
    case UpdateRule::lion:
      return body(RuleConstant<UpdateRule::lion>());
    case UpdateRule::rmsprop:
      return body(RuleConstant<UpdateRule::rmsprop>());
    case UpdateRule::rmsprop_momentum:
      return body(RuleConstant<UpdateRule::rmsprop_momentum>());
    case UpdateRule::adagrad:
      return body(RuleConstant<UpdateRule::adagrad>());
    case UpdateRule::ademamix:
      return body(RuleConstant<UpdateRule::ademamix>());
    case UpdateRule::muon:
      return body(RuleConstant<UpdateRule::muon>());
    case UpdateRule::adafactor:
      return body(RuleConstant<UpdateRule::adafactor>());
    case UpdateRule::normuon:
      return body(RuleConstant<UpdateRule::normuon>());
    case UpdateRule::adagrad_rowwise:
      return body(RuleConstant<UpdateRule::adagrad_rowwise>());
    default:
      return body(RuleConstant<UpdateRule::adamw>());
  }
}

}  // namespace strata
