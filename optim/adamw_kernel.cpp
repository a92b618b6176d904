// Compiled once per instruction set by foreach_target. Only additions, multiplications, divisions and square
// roots that IEEE 754 rounds correctly, never a fused multiply-add (see CMakeLists.txt), so all targets agree
// to the bit; stretches shorter than a vector go through the same vector code in a buffer, so an element's
// place does not matter either.
#include "optim/adamw_kernel.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "optim/stochastic_rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adamw_kernel.cpp"
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

/// Pointers to the first element of a stretch, and what names its random bits.
template <class Precision, class Master, class Moment>
struct Arrays {
  static constexpr bool kSplit = std::is_same_v<Master, Remainder>;
  static constexpr bool kParameter = !std::is_same_v<Precision, float>;  ///< beside the master
  static constexpr bool kRoundedCopy = kParameter && !kSplit;
  static constexpr bool kRoundedMoments = !std::is_same_v<Moment, float>;
  /// Rounding to bf16 takes fewer instructions if all are numbers, as they are in a run that goes well.
  static constexpr bool kSeldomSpecial =
      kRoundedMoments || (kRoundedCopy && std::is_same_v<Precision, bfloat16>);

  /// With bf16 moments most elements have 16 bits.
  static constexpr Order kOrder =
      kRoundedMoments && kAlternates<Floats> ? Order::alternating : Order::in_turn;

  Master* master;
  Moment *exp_avg, *exp_avg_sq;
  const Precision* gradient;
  Precision* parameter;
  std::uint32_t counter;

  Arrays from(std::int64_t i) const {
    return {master + i,
            exp_avg + i,
            exp_avg_sq + i,
            gradient + i,
            kParameter ? parameter + i : nullptr,
            counter + static_cast<std::uint32_t>(i)};
  }
};

/// The lines that hold kPrefetchStep elements.
template <class T>
HWY_INLINE void prefetch_lines(const T* from) {
  hwy::Prefetch(from);
  if constexpr (sizeof(T) == 4) hwy::Prefetch(from + kPrefetchStep / 2);
}

template <class Precision, class Master, class Moment>
HWY_INLINE void prefetch(const Arrays<Precision, Master, Moment>& at) {
  prefetch_lines(at.master + kPrefetchDistance);
  prefetch_lines(at.exp_avg + kPrefetchDistance);
  prefetch_lines(at.exp_avg_sq + kPrefetchDistance);
  prefetch_lines(at.gradient + kPrefetchDistance);
  if constexpr (Arrays<Precision, Master, Moment>::kSplit) prefetch_lines(at.parameter + kPrefetchDistance);
}

/// One vector of what an update computes.
struct Updated {
  hn::Vec<Floats> master, exp_avg, exp_avg_sq;
};

HWY_INLINE Updated updated(const AdamWCoefficients& s, hn::Vec<Floats> gradient, const Updated& from) {
  const Floats d;
  const auto g = hn::Mul(gradient, hn::Set(d, s.gradient_scale));
  const auto m =
      hn::Add(hn::Mul(hn::Set(d, s.beta1), from.exp_avg), hn::Mul(hn::Set(d, s.one_minus_beta1), g));
  const auto v = hn::Add(hn::Mul(hn::Set(d, s.beta2), from.exp_avg_sq),
                         hn::Mul(hn::Set(d, s.one_minus_beta2), hn::Mul(g, g)));
  const auto denominator =
      hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, s.inverse_correction2)), hn::Set(d, s.epsilon));
  const auto p = hn::Sub(hn::Mul(hn::Set(d, s.keep), from.master),
                         hn::Mul(hn::Set(d, s.step_size), hn::Div(m, denominator)));
  return {p, m, v};
}

template <class Precision, class Master, class Moment>
HWY_INLINE Two<Updated> updated(const AdamWCoefficients& s, const Arrays<Precision, Master, Moment>& at) {
  constexpr Order kOrder = Arrays<Precision, Master, Moment>::kOrder;
  const Floats d;
  const auto gradient = load_two<kOrder>(d, at.gradient);
  const auto exp_avg = load_two<kOrder>(d, at.exp_avg), exp_avg_sq = load_two<kOrder>(d, at.exp_avg_sq);
  const auto master = load_masters<kOrder>(d, at.parameter, at.master);
  return {updated(s, gradient.first, {master.first, exp_avg.first, exp_avg_sq.first}),
          updated(s, gradient.second, {master.second, exp_avg.second, exp_avg_sq.second})};
}

/// Whether what is rounded, the moments or masters or both, holds neither infinities nor NaNs.
template <class At>
HWY_INLINE bool are_numbers(const Two<Updated>& values) {
  const Floats d;
  const auto &a = values.first, &b = values.second;
  const auto masters = hn::Add(a.master, b.master);
  const auto moments = hn::Add(hn::Add(a.exp_avg, b.exp_avg), hn::Add(a.exp_avg_sq, b.exp_avg_sq));
  if constexpr (!At::kRoundedMoments) return is_finite(d, masters);
  return is_finite(d, At::kRoundedCopy ? hn::Add(moments, masters) : moments);
}

/// Only a parameter that is a rounded copy is worth a streamed store: it is written without being read, while
/// a streamed store to the state, whose lines were just loaded, evicts them first and costs a third of the
/// rate on Intel. REQUIRES for streamed stores: `parameter` is aligned to its vector; for `numbers_only`:
/// are_numbers().
template <Stores parameter_stores, bool numbers_only, class Precision, class Master, class Moment>
HWY_INLINE void store(const Two<Updated>& values, const Arrays<Precision, Master, Moment>& at) {
  using At = Arrays<Precision, Master, Moment>;
  constexpr Order kOrder = At::kOrder;
  const Floats d;
  using Vectors = Two<hn::Vec<Floats>>;
  const Vectors master = {values.first.master, values.second.master};
  const Vectors exp_avg = {values.first.exp_avg, values.second.exp_avg};
  const Vectors exp_avg_sq = {values.first.exp_avg_sq, values.second.exp_avg_sq};
  if constexpr (At::kRoundedMoments) {
    store_rounded<numbers_only, kOrder>(d, exp_avg, exp_avg_sq, random_bits<kOrder>(d, at.counter),
                                        at.exp_avg, at.exp_avg_sq);
  } else {
    store_floats<kOrder>(d, exp_avg, at.exp_avg);
    store_floats<kOrder>(d, exp_avg_sq, at.exp_avg_sq);
  }
  if constexpr (At::kSplit) {
    store_masters<kOrder>(d, master, at.parameter, at.master);
  } else {
    store_floats<kOrder>(d, master, at.master);
    if constexpr (At::kRoundedCopy) {
      store_two<parameter_stores, numbers_only, kOrder>(d, master, at.parameter);
    }
  }
}

/// Two vectors of elements. REQUIRES for streamed stores: `parameter` is aligned to its vector.
template <Stores parameter_stores, class Precision, class Master, class Moment>
HWY_INLINE void update(const AdamWCoefficients& s, const Arrays<Precision, Master, Moment>& at) {
  using At = Arrays<Precision, Master, Moment>;
  // All loads come first: one behind a store to the same place of another page would wait for it.
  const Two<Updated> values = updated(s, at);
  if (At::kSeldomSpecial && HWY_LIKELY(are_numbers<At>(values))) {
    store<parameter_stores, At::kSeldomSpecial>(values, at);
  } else {
    store<parameter_stores, false>(values, at);
  }
}

/// Fewer elements than two vectors: through a buffer.
template <class Precision, class Master, class Moment>
void update_partial(const AdamWCoefficients& s, const Arrays<Precision, Master, Moment>& at,
                    std::size_t count) {
  constexpr std::size_t kLanes = 2 * hn::MaxLanes(Floats());
  HWY_ALIGN Master master[kLanes] = {};
  HWY_ALIGN Moment exp_avg[kLanes] = {}, exp_avg_sq[kLanes] = {};
  HWY_ALIGN Precision gradient[kLanes] = {}, parameter[kLanes] = {};
  const auto each = [&](const auto& copy) {
    copy(at.master, master);
    copy(at.exp_avg, exp_avg);
    copy(at.exp_avg_sq, exp_avg_sq);
    if constexpr (Arrays<Precision, Master, Moment>::kParameter) copy(at.parameter, parameter);
  };
  each([count](const auto* from, auto* to) { std::memcpy(to, from, count * sizeof(*to)); });
  std::memcpy(gradient, at.gradient, count * sizeof(Precision));
  update<Stores::cached>(
      s, Arrays<Precision, Master, Moment>{master, exp_avg, exp_avg_sq, gradient, parameter, at.counter});
  each([count](auto* to, const auto* from) { std::memcpy(to, from, count * sizeof(*to)); });
}

template <Stores stores, class Precision, class Master, class Moment>
void update_all(const AdamWCoefficients& s, const Arrays<Precision, Master, Moment> all,
                std::int64_t elements) {
  const std::int64_t step = step_elements();
  static_assert(kPrefetchStep % (2 * hn::MaxLanes(Floats())) == 0);
  std::int64_t i = 0;
  for (; i + kPrefetchStep <= elements; i += kPrefetchStep) {
    prefetch(all.from(i));
    for (std::int64_t j = 0; j < kPrefetchStep; j += step) update<stores>(s, all.from(i + j));
  }
  for (; i + step <= elements; i += step) update<stores>(s, all.from(i));
  if (i < elements) update_partial(s, all.from(i), static_cast<std::size_t>(elements - i));
  if (stores == Stores::streamed) hwy::FlushStream();
}

/// Streams from the first parameter on that lies on a vector's boundary.
template <class Precision, class Master, class Moment>
void update_streamed(const AdamWCoefficients& s, const Arrays<Precision, Master, Moment>& all,
                     std::int64_t elements) {
  const auto bytes = static_cast<std::uintptr_t>(step_elements()) * sizeof(Precision);
  const auto behind =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(all.parameter) % bytes / sizeof(Precision));
  const std::int64_t head = behind == 0 ? 0 : std::min(elements, step_elements() - behind);
  if (head > 0) update_partial(s, all, static_cast<std::size_t>(head));
  update_all<Stores::streamed>(s, all.from(head), elements - head);
}

template <class Precision, class Master, class Moment>
void run_typed(const AdamWCoefficients& s, const AdamWState& state, bool stream) {
  using All = Arrays<Precision, Master, Moment>;
  const All all = {.master = static_cast<Master*>(state.master),
                   .exp_avg = static_cast<Moment*>(state.exp_avg),
                   .exp_avg_sq = static_cast<Moment*>(state.exp_avg_sq),
                   .gradient = static_cast<const Precision*>(state.gradient),
                   .parameter = static_cast<Precision*>(state.parameter),
                   .counter = rounding_key(s.rounding, state.unit) + static_cast<std::uint32_t>(state.first)};
  if constexpr (All::kRoundedCopy) {
    if (stream) return update_streamed(s, all, state.elements);
  }
  update_all<Stores::cached>(s, all, state.elements);
}

void run(const AdamWCoefficients& s, const AdamWState& state, bool stream) {
  with_state_types(state.precision, state.format,
                   [&]<class Precision, class Master, class Moment>(Precision, Master, Moment)
                       HWY_ATTR { run_typed<Precision, Master, Moment>(s, state, stream); });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(run);

void adamw_kernel(const AdamWCoefficients& step, const AdamWState& state, bool stream) {
  HWY_DYNAMIC_DISPATCH(run)(step, state, stream);
}

}  // namespace strata
#endif
