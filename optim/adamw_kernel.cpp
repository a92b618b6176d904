// Compiled once per instruction set by foreach_target. Only additions, multiplications, divisions and square
// roots that IEEE 754 rounds correctly, never a fused multiply-add (see CMakeLists.txt), so all targets agree
// to the bit; stretches shorter than a vector go through the same vector code in a buffer, so an element's
// place does not matter either.
#include "optim/adamw_kernel.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adamw_kernel.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;

enum class Stores { cached, streamed };

/// The vector form of bfloat16's constructor: to nearest even, NaN stays NaN.
template <class V>
HWY_INLINE hn::Vec<Halves> to_bfloat16(V value) {
  const Words words;
  const hn::RebindToSigned<Floats> integers;
  const auto word = hn::BitCast(words, value);
  const auto high = hn::ShiftRight<16>(word);
  const auto odd = hn::And(high, hn::Set(words, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(word, hn::Set(words, 0x7fff)), odd));
  const auto quiet = hn::Or(high, hn::Set(words, 0x40));
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(value));
  // DemoteTo saturates, and both choices are below 2^16, so it is a truncation here.
  return hn::DemoteTo(Halves(), hn::BitCast(integers, hn::IfThenElse(is_nan, quiet, rounded)));
}

HWY_INLINE hn::Vec<Floats> load_gradient(const float* from) {
  return hn::LoadU(Floats(), from);
}
HWY_INLINE hn::Vec<Floats> load_gradient(const bfloat16* from) {
  const auto half = hn::LoadU(Halves(), reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), half)));
}

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

/// One vector of elements. Only the parameter is worth a streamed store: it is written without being read,
/// while a streamed store to the state, whose lines were just loaded, evicts them first and costs a third of
/// the rate on Intel. REQUIRES for streamed stores: `parameter` is aligned to its vector.
template <Stores parameter_stores, class Gradient>
HWY_INLINE void update(const AdamWCoefficients& s, float* master, float* exp_avg, float* exp_avg_sq,
                       const Gradient* gradient, bfloat16* parameter) {
  const Floats d;
  const auto g = hn::Mul(load_gradient(gradient), hn::Set(d, s.gradient_scale));
  const auto m =
      hn::Add(hn::Mul(hn::Set(d, s.beta1), hn::LoadU(d, exp_avg)), hn::Mul(hn::Set(d, s.one_minus_beta1), g));
  const auto v = hn::Add(hn::Mul(hn::Set(d, s.beta2), hn::LoadU(d, exp_avg_sq)),
                         hn::Mul(hn::Set(d, s.one_minus_beta2), hn::Mul(g, g)));
  const auto denominator =
      hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, s.inverse_correction2)), hn::Set(d, s.epsilon));
  const auto p = hn::Sub(hn::Mul(hn::Set(d, s.keep), hn::LoadU(d, master)),
                         hn::Mul(hn::Set(d, s.step_size), hn::Div(m, denominator)));
  hn::StoreU(m, d, exp_avg);
  hn::StoreU(v, d, exp_avg_sq);
  hn::StoreU(p, d, master);
  if (parameter != nullptr)
    store<parameter_stores>(to_bfloat16(p), Halves(), reinterpret_cast<std::uint16_t*>(parameter));
}

/// Fewer elements than a vector: through a buffer.
template <class Gradient>
void update_partial(const AdamWCoefficients& s, const AdamWPointers& at, std::int64_t first,
                    std::size_t count) {
  constexpr std::size_t kLanes = hn::MaxLanes(Floats());
  HWY_ALIGN float master[kLanes] = {}, exp_avg[kLanes] = {}, exp_avg_sq[kLanes] = {};
  HWY_ALIGN Gradient gradient[kLanes] = {};
  HWY_ALIGN bfloat16 parameter[kLanes] = {};
  std::memcpy(master, at.master + first, count * sizeof(float));
  std::memcpy(exp_avg, at.exp_avg + first, count * sizeof(float));
  std::memcpy(exp_avg_sq, at.exp_avg_sq + first, count * sizeof(float));
  std::memcpy(gradient, static_cast<const Gradient*>(at.gradient) + first, count * sizeof(Gradient));
  update<Stores::cached>(s, master, exp_avg, exp_avg_sq, gradient, parameter);
  std::memcpy(at.master + first, master, count * sizeof(float));
  std::memcpy(at.exp_avg + first, exp_avg, count * sizeof(float));
  std::memcpy(at.exp_avg_sq + first, exp_avg_sq, count * sizeof(float));
  if (at.parameter != nullptr) std::memcpy(at.parameter + first, parameter, count * sizeof(bfloat16));
}

template <Stores stores, class Gradient>
void update_all(const AdamWCoefficients& s, const AdamWPointers& at, std::int64_t elements) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  const auto* gradient = static_cast<const Gradient*>(at.gradient);
  std::int64_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    prefetch(at.master + i);
    prefetch(at.exp_avg + i);
    prefetch(at.exp_avg_sq + i);
    prefetch(gradient + i);
    update<stores>(s, at.master + i, at.exp_avg + i, at.exp_avg_sq + i, gradient + i,
                   at.parameter == nullptr ? nullptr : at.parameter + i);
  }
  if (i < elements) update_partial<Gradient>(s, at, i, static_cast<std::size_t>(elements - i));
  if (stores == Stores::streamed) hwy::FlushStream();
}

AdamWPointers advanced(const AdamWPointers& at, std::int64_t by) {
  const auto* gradient = static_cast<const std::byte*>(at.gradient) + by * size_of(at.gradient_dtype);
  return {at.master + by, at.exp_avg + by,   at.exp_avg_sq + by,
          gradient,       at.gradient_dtype, at.parameter == nullptr ? nullptr : at.parameter + by};
}

/// Streams from the first parameter on that lies on a vector's boundary.
template <class Gradient>
void update_streamed(const AdamWCoefficients& s, const AdamWPointers& at, std::int64_t elements) {
  const std::size_t bytes = hn::Lanes(Halves()) * sizeof(bfloat16);
  const std::size_t behind = reinterpret_cast<std::uintptr_t>(at.parameter) % bytes / sizeof(bfloat16);
  const std::int64_t head =
      std::min(elements, behind == 0 ? 0 : static_cast<std::int64_t>(hn::Lanes(Halves()) - behind));
  if (head > 0) update_partial<Gradient>(s, at, 0, static_cast<std::size_t>(head));
  update_all<Stores::streamed, Gradient>(s, advanced(at, head), elements - head);
}

template <class Gradient>
void run_typed(const AdamWCoefficients& s, const AdamWPointers& at, std::int64_t elements, bool stream) {
  if (stream) {
    update_streamed<Gradient>(s, at, elements);
  } else {
    update_all<Stores::cached, Gradient>(s, at, elements);
  }
}

void run(const AdamWCoefficients& s, const AdamWPointers& at, std::int64_t elements, bool stream) {
  if (at.gradient_dtype == DType::bf16) {
    run_typed<bfloat16>(s, at, elements, stream);
  } else {
    run_typed<float>(s, at, elements, stream);
  }
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(run);

void adamw_kernel(const AdamWCoefficients& step, const AdamWPointers& at, std::int64_t elements,
                  bool stream) {
  HWY_DYNAMIC_DISPATCH(run)(step, at, elements, stream);
}

}  // namespace strata
#endif
