// Compiled once per instruction set by foreach_target. Only additions, multiplications, divisions and square
// roots that IEEE 754 rounds correctly, never a fused multiply-add (see CMakeLists.txt), so all targets agree
// to the bit; stretches shorter than a vector go through the same vector code in a buffer, so an element's
// place does not matter either.
#include "optim/adamw_kernel.h"

#include <algorithm>
#include <cstring>

#include "engine/base/storage_type.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adamw_kernel.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "engine/base/storage_vectors-inl.h"

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

/// One vector of elements. Only the parameter is worth a streamed store: it is written without being read,
/// while a streamed store to the state, whose lines were just loaded, evicts them first and costs a third of
/// the rate on Intel. REQUIRES for streamed stores: `parameter` is aligned to its vector.
template <Stores parameter_stores, class Gradient, class Parameter>
HWY_INLINE void update(const AdamWCoefficients& s, float* master, float* exp_avg, float* exp_avg_sq,
                       const Gradient* gradient, Parameter* parameter) {
  const Floats d;
  const auto g = hn::Mul(load_elements(d, gradient), hn::Set(d, s.gradient_scale));
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
    store<parameter_stores>(to_bits(d, p, parameter), Halves(), reinterpret_cast<std::uint16_t*>(parameter));
}

/// Fewer elements than a vector: through a buffer.
template <class Gradient, class Parameter>
void update_partial(const AdamWCoefficients& s, const AdamWPointers& at, std::int64_t first,
                    std::size_t count) {
  constexpr std::size_t kLanes = hn::MaxLanes(Floats());
  HWY_ALIGN float master[kLanes] = {}, exp_avg[kLanes] = {}, exp_avg_sq[kLanes] = {};
  HWY_ALIGN Gradient gradient[kLanes] = {};
  HWY_ALIGN Parameter parameter[kLanes] = {};
  std::memcpy(master, at.master + first, count * sizeof(float));
  std::memcpy(exp_avg, at.exp_avg + first, count * sizeof(float));
  std::memcpy(exp_avg_sq, at.exp_avg_sq + first, count * sizeof(float));
  std::memcpy(gradient, static_cast<const Gradient*>(at.gradient) + first, count * sizeof(Gradient));
  update<Stores::cached>(s, master, exp_avg, exp_avg_sq, gradient, parameter);
  std::memcpy(at.master + first, master, count * sizeof(float));
  std::memcpy(at.exp_avg + first, exp_avg, count * sizeof(float));
  std::memcpy(at.exp_avg_sq + first, exp_avg_sq, count * sizeof(float));
  if (at.parameter != nullptr) {
    std::memcpy(static_cast<Parameter*>(at.parameter) + first, parameter, count * sizeof(Parameter));
  }
}

template <Stores stores, class Gradient, class Parameter>
void update_all(const AdamWCoefficients& s, const AdamWPointers& at, std::int64_t elements) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  const auto* gradient = static_cast<const Gradient*>(at.gradient);
  auto* parameter = static_cast<Parameter*>(at.parameter);
  std::int64_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    prefetch(at.master + i);
    prefetch(at.exp_avg + i);
    prefetch(at.exp_avg_sq + i);
    prefetch(gradient + i);
    update<stores>(s, at.master + i, at.exp_avg + i, at.exp_avg_sq + i, gradient + i,
                   parameter == nullptr ? nullptr : parameter + i);
  }
  if (i < elements) update_partial<Gradient, Parameter>(s, at, i, static_cast<std::size_t>(elements - i));
  if (stores == Stores::streamed) hwy::FlushStream();
}

/// Streams from the first parameter on that lies on a vector's boundary.
template <class Gradient, class Parameter>
void update_streamed(const AdamWCoefficients& s, const AdamWPointers& at, std::int64_t elements) {
  const std::size_t bytes = hn::Lanes(Halves()) * sizeof(Parameter);
  const std::size_t behind = reinterpret_cast<std::uintptr_t>(at.parameter) % bytes / sizeof(Parameter);
  const std::int64_t head =
      std::min(elements, behind == 0 ? 0 : static_cast<std::int64_t>(hn::Lanes(Halves()) - behind));
  if (head > 0) update_partial<Gradient, Parameter>(s, at, 0, static_cast<std::size_t>(head));
  update_all<Stores::streamed, Gradient, Parameter>(s, advanced(at, head), elements - head);
}

template <class Gradient, class Parameter>
void run_typed(const AdamWCoefficients& s, const AdamWPointers& at, std::int64_t elements, bool stream) {
  if (stream) {
    update_streamed<Gradient, Parameter>(s, at, elements);
  } else {
    update_all<Stores::cached, Gradient, Parameter>(s, at, elements);
  }
}

void run(const AdamWCoefficients& s, const AdamWPointers& at, std::int64_t elements, bool stream) {
  with_storage_type(at.gradient_dtype, [&]<typename Gradient>(Gradient) HWY_ATTR {
    if (at.parameter_dtype == DType::fp16) {
      run_typed<Gradient, float16>(s, at, elements, stream);
    } else {
      run_typed<Gradient, bfloat16>(s, at, elements, stream);
    }
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(run);

AdamWPointers advanced(const AdamWPointers& at, std::int64_t elements) {
  AdamWPointers later = at;
  later.master += elements;
  later.exp_avg += elements;
  later.exp_avg_sq += elements;
  later.gradient = static_cast<const std::byte*>(at.gradient) + elements * size_of(at.gradient_dtype);
  if (at.parameter != nullptr)
    later.parameter = static_cast<std::byte*>(at.parameter) + elements * size_of(at.parameter_dtype);
  return later;
}

void adamw_kernel(const AdamWCoefficients& step, const AdamWPointers& at, std::int64_t elements,
                  bool stream) {
  HWY_DYNAMIC_DISPATCH(run)(step, at, elements, stream);
}

}  // namespace strata
#endif
