// The two passes over a row that every softmax begins with, compiled once per instruction set as vector-inl.h
// is.
#if defined(STRATA_DEVICE_CPU_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_DEVICE_CPU_SOFTMAX_INL_H
#undef STRATA_DEVICE_CPU_SOFTMAX_INL_H
#else
#define STRATA_DEVICE_CPU_SOFTMAX_INL_H
#endif

#include <limits>

#include "engine/device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

template <typename T>
HWY_INLINE float row_maximum(const T* logits, std::int64_t count) {
  Float most = broadcast(-std::numeric_limits<float>::infinity());
  for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
    most = hn::Max(most, access.or_else(access.load(logits + i), -std::numeric_limits<float>::infinity()));
  });
  return maximum(most);
}

/// Writes exp(logits - shift) and returns the sum; four running sums hide the latency of the additions.
template <typename T>
HWY_INLINE float write_exponentials(const T* logits, std::int64_t count, float shift, float* to) {
  const Float offset = broadcast(shift);
  const std::int64_t step = lanes();
  Float sums[4] = {hn::Zero(FloatTag()), hn::Zero(FloatTag()), hn::Zero(FloatTag()), hn::Zero(FloatTag())};
  std::int64_t i = 0;
  for (; i + 4 * step <= count; i += 4 * step) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const Float value = exponential(hn::Sub(load(logits + i + j * step), offset));
      sums[j] = hn::Add(sums[j], value);
      store(value, to + i + j * step);
    }
  }
  for_vectors(count - i, [&](auto access, std::int64_t k) HWY_ATTR {
    const Float value = exponential(hn::Sub(access.load(logits + i + k), offset));
    sums[0] = hn::Add(sums[0], access.or_else(value, 0.0F));
    access.store(value, to + i + k);
  });
  return sum(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
