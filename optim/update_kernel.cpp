// Compiled once per instruction set by foreach_target. It uses only additions, multiplications, divisions and
// square roots, which IEEE 754 rounds correctly, and never a fused multiply-add (see CMakeLists.txt). So all
// targets agree to the bit. Stretches shorter than a vector go through the same vector code in a buffer, so
// the bits do not depend on an element's place either.
#include "optim/update_kernel.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "optim/stochastic_rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/update_kernel.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "base/storage_vectors-inl.h"
#include "optim/state_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
/// Elements that are updated at once: two vectors, whose 16-bit elements fill one.
HWY_INLINE std::int64_t step_elements() {
  return 2 * static_cast<std::int64_t>(hn::Lanes(Floats()));
}

/// Elements that are asked for ahead of their use: the five arrays share too few of the hardware's own
/// prefetch streams. Measured with two threads on a Zen 5: 256 gives 0.9 of the rate, 512 to 2048 the same.
constexpr std::int64_t kPrefetchDistance = 512;

/// Elements between prefetches: a line of 16-bit elements, two lines of floats. Each line is asked for once,
/// since a prefetch of a line that was asked for takes a load's place all the same.
constexpr std::int64_t kPrefetchStep = 32;

/// Pointers to the first element of a stretch, and what names its random bits. `Stored` is what the `count`
/// moments are stored as.
template <int count, class Precision, class Master, class Stored>
struct Arrays {
  static constexpr int kCount = count;
  static constexpr bool kSplit = std::is_same_v<Master, Remainder>;
  static constexpr bool kRoundedMaster = std::is_same_v<Master, bfloat16>;  ///< the parameter itself
  static constexpr bool kParameter =
      !kRoundedMaster && !std::is_same_v<Precision, float>;  ///< beside the master
  static constexpr bool kRoundedCopy = kParameter && !kSplit;
  /// Stores of fp16 are never streamed.
  static constexpr bool kStreams = kRoundedCopy && std::is_same_v<Precision, bfloat16>;
  static constexpr bool kRoundedMoments = kCount > 0 && !std::is_same_v<Stored, float>;
  static constexpr bool kRoundedAtRandom = kRoundedMoments || kRoundedMaster;
  /// Rounding to bf16 takes fewer instructions if all are numbers, as they are in a run that goes well.
  static constexpr bool kSeldomSpecial =
      kRoundedAtRandom || (kRoundedCopy && std::is_same_v<Precision, bfloat16>);

  /// With bf16 moments or masters most elements have 16 bits.
  static constexpr Order kOrder =
      kRoundedAtRandom && kAlternates<Floats> ? Order::alternating : Order::in_turn;

  using Moments = std::array<Stored*, kCount>;

  Master* master;
  Moments moments;
  const Precision* gradient;
  Precision* parameter;
  std::uint32_t counter;

  Arrays from(std::int64_t i) const {
    Arrays result = {master + i, moments, gradient + i, kParameter ? parameter + i : nullptr,
                     counter + static_cast<std::uint32_t>(i)};
    for (Stored*& moment : result.moments) moment += i;
    return result;
  }
};

/// The lines that hold kPrefetchStep elements.
template <class T>
HWY_INLINE void prefetch_lines(const T* from) {
  hwy::Prefetch(from);
  if constexpr (sizeof(T) == 4) hwy::Prefetch(from + kPrefetchStep / 2);
}

template <class At>
HWY_INLINE void prefetch(const At& at) {
  prefetch_lines(at.master + kPrefetchDistance);
  for (const auto* moment : at.moments) prefetch_lines(moment + kPrefetchDistance);
  prefetch_lines(at.gradient + kPrefetchDistance);
  if constexpr (At::kSplit) prefetch_lines(at.parameter + kPrefetchDistance);
}

/// One vector of each of a rule's moments.
template <int count>
using MomentVectors = std::array<hn::Vec<Floats>, count>;

/// One vector of what an update computes.
template <int count>
struct Updated {
  hn::Vec<Floats> master;
  MomentVectors<count> moments;
};

/// Adam's moments get the gradient; returns what a step is divided by. For AdamW and AdEMAMix.
template <class Coefficients>
HWY_INLINE hn::Vec<Floats> adam_denominator(const Coefficients& s, hn::Vec<Floats> g, hn::Vec<Floats>& m,
                                            hn::Vec<Floats>& v) {
  const Floats d;
  m = hn::Add(hn::Mul(hn::Set(d, s.beta1), m), hn::Mul(hn::Set(d, s.one_minus_beta1), g));
  v = hn::Add(hn::Mul(hn::Set(d, s.beta2), v), hn::Mul(hn::Set(d, s.one_minus_beta2), hn::Mul(g, g)));
  return hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, s.inverse_correction2)), hn::Set(d, s.epsilon));
}

/// The rules, as optim/update_rule.h has them.
HWY_INLINE Updated<2> updated(const AdamWCoefficients& s, hn::Vec<Floats> gradient, const Updated<2>& from) {
  const Floats d;
  const auto g = hn::Mul(gradient, hn::Set(d, s.gradient_scale));
  auto m = from.moments[0], v = from.moments[1];
  const auto denominator = adam_denominator(s, g, m, v);
  const auto p = hn::Sub(hn::Mul(hn::Set(d, s.keep), from.master),
                         hn::Mul(hn::Set(d, s.step_size), hn::Div(m, denominator)));
  return {p, {m, v}};
}

HWY_INLINE Updated<3> updated(const AdemamixCoefficients& s, hn::Vec<Floats> gradient,
                              const Updated<3>& from) {
  const Floats d;
  const auto g = hn::Mul(gradient, hn::Set(d, s.gradient_scale));
  auto m = from.moments[0], v = from.moments[1];
  const auto denominator = adam_denominator(s, g, m, v);
  const auto n =
      hn::Add(hn::Mul(hn::Set(d, s.beta3), from.moments[2]), hn::Mul(hn::Set(d, s.one_minus_beta3), g));
  const auto mixture =
      hn::Add(hn::Mul(m, hn::Set(d, s.inverse_correction1)), hn::Mul(hn::Set(d, s.alpha), n));
  const auto p = hn::Sub(hn::Mul(hn::Set(d, s.keep), from.master),
                         hn::Mul(hn::Set(d, s.learning_rate), hn::Div(mixture, denominator)));
  return {p, {m, v, n}};
}

/// The gradient with what decays the weights, for SgdCoefficients and RootCoefficients.
template <class Coefficients>
HWY_INLINE hn::Vec<Floats> decayed(const Coefficients& s, hn::Vec<Floats> gradient, hn::Vec<Floats> master) {
  const Floats d;
  return hn::Add(hn::Mul(gradient, hn::Set(d, s.gradient_scale)),
                 hn::Mul(hn::Set(d, s.weight_decay), master));
}

HWY_INLINE Updated<0> updated(const SgdCoefficients& s, hn::Vec<Floats> gradient, const Updated<0>& from) {
  const Floats d;
  const auto g = decayed(s, gradient, from.master);
  return {hn::Sub(from.master, hn::Mul(hn::Set(d, s.learning_rate), g)), {}};
}

HWY_INLINE Updated<1> updated(const SgdCoefficients& s, hn::Vec<Floats> gradient, const Updated<1>& from) {
  const Floats d;
  const auto buffer =
      hn::Add(hn::Mul(hn::Set(d, s.momentum), from.moments[0]), decayed(s, gradient, from.master));
  return {hn::Sub(from.master, hn::Mul(hn::Set(d, s.learning_rate), buffer)), {buffer}};
}

/// -1, 0 or 1 in each lane; 0 for NaN.
HWY_INLINE hn::Vec<Floats> signs(hn::Vec<Floats> value) {
  const Floats d;
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0F);
  return hn::Sub(hn::IfThenElseZero(hn::Gt(value, zero), one), hn::IfThenElseZero(hn::Lt(value, zero), one));
}

HWY_INLINE Updated<1> updated(const LionCoefficients& s, hn::Vec<Floats> gradient, const Updated<1>& from) {
  const Floats d;
  const auto g = hn::Mul(gradient, hn::Set(d, s.gradient_scale));
  const auto direction =
      hn::Add(hn::Mul(hn::Set(d, s.beta1), from.moments[0]), hn::Mul(hn::Set(d, s.one_minus_beta1), g));
  const auto m =
      hn::Add(hn::Mul(hn::Set(d, s.beta2), from.moments[0]), hn::Mul(hn::Set(d, s.one_minus_beta2), g));
  const auto p = hn::Sub(hn::Mul(hn::Set(d, s.keep), from.master),
                         hn::Mul(hn::Set(d, s.learning_rate), signs(direction)));
  return {p, {m}};
}

/// The decayed gradient, divided by the root of `squares`, which get its square first.
HWY_INLINE hn::Vec<Floats> divided(const RootCoefficients& s, hn::Vec<Floats> gradient,
                                   hn::Vec<Floats> master, hn::Vec<Floats>& squares) {
  const Floats d;
  const auto g = decayed(s, gradient, master);
  squares =
      hn::Add(hn::Mul(hn::Set(d, s.keep_squares), squares), hn::Mul(hn::Set(d, s.add_square), hn::Mul(g, g)));
  return hn::Div(g, hn::Add(hn::Sqrt(squares), hn::Set(d, s.epsilon)));
}

HWY_INLINE Updated<1> updated(const RootCoefficients& s, hn::Vec<Floats> gradient, const Updated<1>& from) {
  const Floats d;
  auto squares = from.moments[0];
  const auto change = divided(s, gradient, from.master, squares);
  return {hn::Sub(from.master, hn::Mul(hn::Set(d, s.learning_rate), change)), {squares}};
}

HWY_INLINE Updated<2> updated(const RootCoefficients& s, hn::Vec<Floats> gradient, const Updated<2>& from) {
  const Floats d;
  auto squares = from.moments[1];
  const auto change = divided(s, gradient, from.master, squares);
  const auto buffer = hn::Add(hn::Mul(hn::Set(d, s.momentum), from.moments[0]), change);
  return {hn::Sub(from.master, hn::Mul(hn::Set(d, s.learning_rate), buffer)), {buffer, squares}};
}

/// `direction`: what stands in the gradient's place.
HWY_INLINE Updated<0> updated(const DirectionCoefficients& s, hn::Vec<Floats> direction,
                              const Updated<0>& from) {
  const Floats d;
  return {hn::Sub(hn::Mul(hn::Set(d, s.keep), from.master), hn::Mul(hn::Set(d, s.learning_rate), direction)),
          {}};
}

template <class At>
using UpdatedOf = Updated<At::kCount>;

template <class Coefficients, class At>
HWY_INLINE Two<UpdatedOf<At>> updated(const Coefficients& s, const At& at) {
  const Floats d;
  const auto gradient = load_two<At::kOrder>(d, at.gradient);
  Two<UpdatedOf<At>> from;
  for (int k = 0; k < At::kCount; ++k) {
    const auto moment = load_two<At::kOrder>(d, at.moments[k]);
    from.first.moments[k] = moment.first;
    from.second.moments[k] = moment.second;
  }
  const auto master = load_masters<At::kOrder>(d, at.parameter, at.master);
  from.first.master = master.first;
  from.second.master = master.second;
  return {updated(s, gradient.first, from.first), updated(s, gradient.second, from.second)};
}

/// Whether what is rounded, the moments or masters or both, holds neither infinities nor NaNs.
template <class At>
HWY_INLINE bool are_numbers(const Two<UpdatedOf<At>>& values) {
  const Floats d;
  const auto &a = values.first, &b = values.second;
  const auto masters = hn::Add(a.master, b.master);
  if constexpr (!At::kRoundedMoments) {
    return is_finite(d, masters);
  } else {
    auto moments = hn::Add(a.moments[0], b.moments[0]);
    for (int k = 1; k < At::kCount; ++k) moments = hn::Add(moments, hn::Add(a.moments[k], b.moments[k]));
    constexpr bool kRoundsMasters = At::kRoundedCopy || At::kRoundedMaster;
    return is_finite(d, kRoundsMasters ? hn::Add(moments, masters) : moments);
  }
}

/// The random words of two vectors of elements.
using RandomWords = Two<hn::Vec<WordsOf<Floats>>>;

HWY_INLINE RandomWords hashed(const RandomWords& words) {
  return {mixed_bits(Floats(), words.first), mixed_bits(Floats(), words.second)};
}

template <bool numbers_only, int number, class At>
HWY_INLINE void store_moment(const Two<UpdatedOf<At>>& values, const RandomWords& random, const At& at) {
  const Floats d;
  const Two<hn::Vec<Floats>> moment = {values.first.moments[number], values.second.moments[number]};
  if constexpr (number < 2) {
    store_rounded<numbers_only, At::kOrder, number>(d, moment, random, at.moments[number]);
  } else {
    store_rounded<numbers_only, At::kOrder, 0>(d, moment, hashed(random), at.moments[number]);
  }
}

template <bool numbers_only, class At>
HWY_INLINE void store_moments(const Two<UpdatedOf<At>>& values, const RandomWords& random, const At& at) {
  static_assert(At::kCount <= 3);  // random_half() has no more
  const Floats d;
  if constexpr (At::kRoundedMoments) {
    store_moment<numbers_only, 0>(values, random, at);
    if constexpr (At::kCount > 1) store_moment<numbers_only, 1>(values, random, at);
    if constexpr (At::kCount > 2) store_moment<numbers_only, 2>(values, random, at);
  } else {
    for (int k = 0; k < At::kCount; ++k) {
      store_floats<At::kOrder>(d, Two<hn::Vec<Floats>>{values.first.moments[k], values.second.moments[k]},
                               at.moments[k]);
    }
  }
}

/// Only a parameter that is a rounded copy is worth a streamed store, since it is written without being read.
/// The lines of the state were just loaded: a streamed store evicts them first and costs a third of the rate
/// on Intel. REQUIRES for streamed stores: `parameter` is aligned to its vector; for `numbers_only`:
/// are_numbers().
template <Stores parameter_stores, bool numbers_only, class At>
HWY_INLINE void store(const Two<UpdatedOf<At>>& values, const At& at) {
  const Floats d;
  const Two<hn::Vec<Floats>> master = {values.first.master, values.second.master};
  const RandomWords random = random_bits<At::kOrder>(d, at.counter);  // dropped if nothing reads it
  store_moments<numbers_only>(values, random, at);
  if constexpr (At::kSplit) {
    store_masters<At::kOrder>(d, master, at.parameter, at.master);
  } else if constexpr (At::kRoundedMaster) {
    store_rounded<numbers_only, At::kOrder, 1>(d, master, hashed(random), at.master);
  } else {
    store_floats<At::kOrder>(d, master, at.master);
    if constexpr (At::kRoundedCopy) {
      store_two<parameter_stores, numbers_only, At::kOrder>(d, master, at.parameter);
    }
  }
}

/// Two vectors of elements. REQUIRES for streamed stores: `parameter` is aligned to its vector.
template <Stores parameter_stores, class Coefficients, class At>
HWY_INLINE void update(const Coefficients& s, const At& at) {
  // All loads come first: one behind a store to the same place of another page would wait for it.
  const Two<UpdatedOf<At>> values = updated(s, at);
  if (At::kSeldomSpecial && HWY_LIKELY(are_numbers<At>(values))) {
    store<parameter_stores, At::kSeldomSpecial>(values, at);
  } else {
    store<parameter_stores, false>(values, at);
  }
}

/// At most two vectors of elements: through a buffer.
template <class Coefficients, int moment_count, class Precision, class Master, class Stored>
void update_partial(const Coefficients& s, const Arrays<moment_count, Precision, Master, Stored>& at,
                    std::size_t count) {
  using At = Arrays<moment_count, Precision, Master, Stored>;
  constexpr std::size_t kLanes = 2 * hn::MaxLanes(Floats());
  HWY_ALIGN Master master[kLanes] = {};
  HWY_ALIGN Stored moments[std::max(At::kCount, 1)][kLanes] = {};
  HWY_ALIGN Precision gradient[kLanes] = {}, parameter[kLanes] = {};
  At in_buffer = {master, {}, gradient, parameter, at.counter};
  for (int k = 0; k < At::kCount; ++k) in_buffer.moments[k] = moments[k];
  const auto each = [&](const auto& copy) {
    copy(at.master, master);
    for (int k = 0; k < At::kCount; ++k) copy(at.moments[k], moments[k]);
    if constexpr (At::kParameter) copy(at.parameter, parameter);
  };
  each([count](const auto* from, auto* to) { std::memcpy(to, from, count * sizeof(*to)); });
  std::memcpy(gradient, at.gradient, count * sizeof(Precision));
  update<Stores::cached>(s, in_buffer);
  each([count](auto* to, const auto* from) { std::memcpy(to, from, count * sizeof(*to)); });
}

template <Stores stores, class Coefficients, class At>
void update_all(const Coefficients& s, const At all, std::int64_t elements) {
  const std::int64_t step = step_elements();
  static_assert(kPrefetchStep % (2 * hn::MaxLanes(Floats())) == 0);
  std::int64_t i = 0;
  for (; i + kPrefetchStep <= elements; i += kPrefetchStep) {
    prefetch(all.from(i));
    for (std::int64_t j = 0; j < kPrefetchStep; j += step) update<stores>(s, all.from(i + j));
  }
  // The end is short, and code for its whole vectors would be as much again as all the rest.
  for (; i < elements; i += step)
    update_partial(s, all.from(i), static_cast<std::size_t>(std::min(step, elements - i)));
  if (stores == Stores::streamed) hwy::FlushStream();
}

/// Streams from the first parameter on that lies on a vector's boundary.
template <class Coefficients, class At>
void update_streamed(const Coefficients& s, const At& all, std::int64_t elements) {
  constexpr std::size_t kSize = sizeof(*all.parameter);
  const auto bytes = static_cast<std::uintptr_t>(step_elements()) * kSize;
  const auto behind =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(all.parameter) % bytes / kSize);
  const std::int64_t head = behind == 0 ? 0 : std::min(elements, step_elements() - behind);
  if (head > 0) update_partial(s, all, static_cast<std::size_t>(head));
  update_all<Stores::streamed>(s, all.from(head), elements - head);
}

template <class Coefficients, class All>
void run_typed(const Coefficients& s, All all, const OptimizerState& state, bool stream) {
  const strata::Moments stepped = stepped_moments(state.rule);
  for (int k = 0; k < All::kCount; ++k)
    all.moments[k] = static_cast<typename All::Moments::value_type>(state.of(stepped.at(k)));
  all.counter = rounding_key(s.rounding, state.unit) + static_cast<std::uint32_t>(state.first);
  if constexpr (All::kStreams) {
    if (stream) return update_streamed(s, all, state.elements);
  }
  update_all<Stores::cached>(s, all, state.elements);
}

void run(const UpdateCoefficients& step, const OptimizerState& state, bool stream) {
  with_rule(state.rule, [&]<UpdateRule rule>(RuleConstant<rule>) {
    with_state_types(state.precision, state.format,
                     [&]<class Precision, class Master, class Moment>(Precision, Master, Moment) HWY_ATTR {
                       constexpr int kCount = stepped_moments(rule).count();
                       // If there are none, one type stands for both.
                       using Stored = std::conditional_t<kCount == 0, float, Moment>;
                       const Arrays<kCount, Precision, Master, Stored> all = {
                           .master = static_cast<Master*>(state.master),
                           .moments = {},
                           .gradient = static_cast<const Precision*>(state.gradient),
                           .parameter = static_cast<Precision*>(state.parameter),
                           .counter = 0};
                       run_typed(step.of<rule>(), all, state, stream);
                     });
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(run);

void update_kernel(const UpdateCoefficients& step, const OptimizerState& state, bool stream) {
  HWY_DYNAMIC_DISPATCH(run)(step, state, stream);
}

}  // namespace strata
#endif
