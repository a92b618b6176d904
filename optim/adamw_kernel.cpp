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
using Halves = HalvesOf<Floats>;

enum class Stores { cached, streamed };

/// Highway's Stream writes at least 16 bytes, so the half vectors of 128-bit targets are stored.
template <Stores stores, class D>
HWY_INLINE void store(hn::Vec<D> value, D tag, hn::TFromD<D>* to) {
  if constexpr (stores == Stores::streamed && hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) >= 16) {
    hn::Stream(value, tag, to);
  } else {
    hn::StoreU(value, tag, to);
  }
}

/// Elements that are asked for ahead of their use: the five arrays share too few of the hardware's own
/// prefetch streams.
constexpr std::int64_t kPrefetchDistance = 256;

template <class T>
HWY_INLINE void prefetch(const T* at) {
  hwy::Prefetch(at + kPrefetchDistance);
}

/// Pointers to the first element of a stretch, and what names its random bits.
template <class Precision, class Master, class Moment>
struct Arrays {
  static constexpr bool kSplit = std::is_same_v<Master, Remainder>;
  static constexpr bool kParameter = !std::is_same_v<Precision, float>;  ///< beside the master
  static constexpr bool kRoundedCopy = kParameter && !kSplit;
  static constexpr bool kRoundedMoments = !std::is_same_v<Moment, float>;

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

/// One vector of elements. Only a parameter that is a rounded copy is worth a streamed store: it is written
/// without being read, while a streamed store to the state, whose lines were just loaded, evicts them first
/// and costs a third of the rate on Intel. REQUIRES for streamed stores: `parameter` is aligned to its
/// vector.
template <Stores parameter_stores, class Precision, class Master, class Moment>
HWY_INLINE void update(const AdamWCoefficients& s, const Arrays<Precision, Master, Moment>& at) {
  using At = Arrays<Precision, Master, Moment>;
  const Floats d;
  const auto g = hn::Mul(load_elements(d, at.gradient), hn::Set(d, s.gradient_scale));
  const auto m = hn::Add(hn::Mul(hn::Set(d, s.beta1), load_elements(d, at.exp_avg)),
                         hn::Mul(hn::Set(d, s.one_minus_beta1), g));
  const auto v = hn::Add(hn::Mul(hn::Set(d, s.beta2), load_elements(d, at.exp_avg_sq)),
                         hn::Mul(hn::Set(d, s.one_minus_beta2), hn::Mul(g, g)));
  const auto denominator =
      hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, s.inverse_correction2)), hn::Set(d, s.epsilon));
  const auto p = hn::Sub(hn::Mul(hn::Set(d, s.keep), load_master(d, at.parameter, at.master)),
                         hn::Mul(hn::Set(d, s.step_size), hn::Div(m, denominator)));
  // All loads come before: one behind a store to the same place of another page would wait for it.
  if constexpr (At::kRoundedMoments) {
    const auto random = random_bits(d, at.counter);
    const WordsOf<Floats> words;
    store_rounded(d, m, hn::And(random, hn::Set(words, 0xffffU)), at.exp_avg);
    store_rounded(d, v, hn::ShiftRight<16>(random), at.exp_avg_sq);
  } else {
    hn::StoreU(m, d, at.exp_avg);
    hn::StoreU(v, d, at.exp_avg_sq);
  }
  if constexpr (At::kSplit) {
    store_master(d, p, at.parameter, at.master);
  } else {
    hn::StoreU(p, d, at.master);
    if constexpr (At::kRoundedCopy) {
      store<parameter_stores>(to_bits(d, p, at.parameter), Halves(),
                              reinterpret_cast<std::uint16_t*>(at.parameter));
    }
  }
}

/// Fewer elements than a vector: through a buffer.
template <class Precision, class Master, class Moment>
void update_partial(const AdamWCoefficients& s, const Arrays<Precision, Master, Moment>& at,
                    std::size_t count) {
  constexpr std::size_t kLanes = hn::MaxLanes(Floats());
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
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  std::int64_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    const auto at = all.from(i);
    prefetch(at.master);
    prefetch(at.exp_avg);
    prefetch(at.exp_avg_sq);
    prefetch(at.gradient);
    if constexpr (decltype(at)::kSplit) prefetch(at.parameter);
    update<stores>(s, at);
  }
  if (i < elements) update_partial(s, all.from(i), static_cast<std::size_t>(elements - i));
  if (stores == Stores::streamed) hwy::FlushStream();
}

/// Streams from the first parameter on that lies on a vector's boundary.
template <class Precision, class Master, class Moment>
void update_streamed(const AdamWCoefficients& s, const Arrays<Precision, Master, Moment>& all,
                     std::int64_t elements) {
  const std::size_t bytes = hn::Lanes(Halves()) * sizeof(Precision);
  const std::size_t behind = reinterpret_cast<std::uintptr_t>(all.parameter) % bytes / sizeof(Precision);
  const std::int64_t head =
      std::min(elements, behind == 0 ? 0 : static_cast<std::int64_t>(hn::Lanes(Halves()) - behind));
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
