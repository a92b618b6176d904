// Vector helpers of the CPU kernels, compiled once per instruction set by Highway's foreach_target (hence no
// include guard in the usual sense). Storage is fp32, bf16 or fp16, arithmetic is fp32; rounding is that of
// base/dtype.h bit for bit.
#if defined(STRATA_DEVICE_CPU_VECTOR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_DEVICE_CPU_VECTOR_INL_H
#undef STRATA_DEVICE_CPU_VECTOR_INL_H
#else
#define STRATA_DEVICE_CPU_VECTOR_INL_H
#endif

#include <cstdint>
#include <cstring>
#include <limits>

#include "base/storage_vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using WordTag = WordsOf<FloatTag>;
using HalfWordTag = HalvesOf<FloatTag>;
using Float = hn::Vec<FloatTag>;

HWY_INLINE std::int64_t lanes() {
  return static_cast<std::int64_t>(hn::Lanes(FloatTag()));
}
HWY_INLINE Float broadcast(float value) {
  return hn::Set(FloatTag(), value);
}

template <typename T>
HWY_INLINE Float load(const T* from) {
  return load_elements(FloatTag(), from);
}

/// The nearest bf16's bits in the low half of each lane, ties away from zero: cheaper, for factors that stay
/// inside a kernel.
HWY_INLINE hn::Vec<WordTag> nearest_bits(Float value) {
  return hn::ShiftRight<16>(hn::Add(hn::BitCast(WordTag(), value), hn::Set(WordTag(), 0x8000U)));
}

HWY_INLINE void store(Float value, float* to) {
  hn::StoreU(value, FloatTag(), to);
}
template <typename T>
HWY_INLINE void store(Float value, T* to) {
  const auto bits = to_bits(FloatTag(), value, to);
  hn::StoreU(bits, HalfWordTag(), reinterpret_cast<std::uint16_t*>(to));
}
/// The low halves of the lanes, whose high halves are zero.
HWY_INLINE void store_bits(hn::Vec<WordTag> bits, bfloat16* to) {
  hn::StoreU(low_halves(FloatTag(), bits), HalfWordTag(), reinterpret_cast<std::uint16_t*>(to));
}

/// What a store and a load would make of the value.
HWY_INLINE Float rounded(Float value, const float* /*storage*/) {
  return value;
}
HWY_INLINE Float rounded(Float value, const bfloat16* /*storage*/) {
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(bf16_bits(FloatTag(), value)));
}
HWY_INLINE Float rounded(Float value, const float16* storage) {
  return from_bits(FloatTag(), to_bits(FloatTag(), value, storage), storage);
}

/// Access to whole vectors, and to the first `count` elements of one; missing elements read as zero and are
/// not written.
struct Whole {
  template <typename T>
  HWY_INLINE Float load(const T* from) const {
    return HWY_NAMESPACE::load(from);
  }
  template <typename T>
  HWY_INLINE void store(Float value, T* to) const {
    HWY_NAMESPACE::store(value, to);
  }
  /// `value`, with `other` in the lanes that do not exist.
  HWY_INLINE Float or_else(Float value, float /*other*/) const { return value; }
};
struct Tail {
  std::int64_t count;

  template <typename T>
  HWY_INLINE Float load(const T* from) const {
    HWY_ALIGN T buffer[16] = {};
    std::memcpy(buffer, from, static_cast<std::size_t>(count) * sizeof(T));
    return HWY_NAMESPACE::load(buffer);
  }
  template <typename T>
  HWY_INLINE void store(Float value, T* to) const {
    HWY_ALIGN T buffer[16];
    HWY_NAMESPACE::store(value, buffer);
    std::memcpy(to, buffer, static_cast<std::size_t>(count) * sizeof(T));
  }
  HWY_INLINE Float or_else(Float value, float other) const {
    return hn::IfThenElse(hn::FirstN(FloatTag(), static_cast<std::size_t>(count)), value, broadcast(other));
  }
};

/// Calls body(access, i) for each vector of [0, count), with a Tail for the last incomplete one.
template <typename Body>
HWY_INLINE void for_vectors(std::int64_t count, const Body& body) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= count; i += step) body(Whole{}, i);
  if (i < count) body(Tail{count - i}, i);
}

/// Vectors that are computed side by side: one alone would wait for its own results.
constexpr int kBatch = 4;

/// to[i] = function(from[i]) for i in [0, count).
template <typename From, typename To, typename Function>
HWY_INLINE void map(const From* from, To* to, std::int64_t count, const Function& function) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + kBatch * step <= count; i += kBatch * step) {
    Float values[kBatch];
#pragma GCC unroll 4
    for (int j = 0; j < kBatch; ++j) values[j] = load(from + i + j * step);
#pragma GCC unroll 4
    for (int j = 0; j < kBatch; ++j) values[j] = function(values[j]);
#pragma GCC unroll 4
    for (int j = 0; j < kBatch; ++j) store(values[j], to + i + j * step);
  }
  for_vectors(count - i, [&](auto access, std::int64_t k)
                             HWY_ATTR { access.store(function(access.load(from + i + k)), to + i + k); });
}

HWY_INLINE float sum(Float value) {
  return hn::GetLane(hn::SumOfLanes(FloatTag(), value));
}
HWY_INLINE float maximum(Float value) {
  return hn::GetLane(hn::MaxOfLanes(FloatTag(), value));
}

/// exp, relative error below 3e-7 (Cephes' expf polynomial). 0 if the result is no normal number, infinite
/// from 2^127.5 on; NaN stays NaN.
HWY_INLINE Float exponential(Float x) {
  const FloatTag d;
  const WordTag words;
  // Adding 1.5·2^23 rounds to an integer, which then stands in the low bits.
  const Float magic = broadcast(12582912.0F);
  const Float shifted = hn::MulAdd(x, broadcast(1.44269504088896341F), magic);
  const Float power = hn::Sub(shifted, magic);
  Float r = hn::NegMulAdd(power, broadcast(0.693359375F), x);
  r = hn::NegMulAdd(power, broadcast(-2.12194440e-4F), r);
  Float p = hn::MulAdd(broadcast(1.9875691500e-4F), r, broadcast(1.3981999507e-3F));
  p = hn::MulAdd(p, r, broadcast(8.3334519073e-3F));
  p = hn::MulAdd(p, r, broadcast(4.1665795894e-2F));
  p = hn::MulAdd(p, r, broadcast(1.6666665459e-1F));
  p = hn::MulAdd(p, r, broadcast(5.0000001201e-1F));
  p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, broadcast(1.0F)));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::BitCast(words, shifted), hn::Set(words, 127U)));
  p = hn::Mul(p, hn::BitCast(d, exponent));
  // Beyond these the integer does not fit the exponent.
  p = hn::IfThenElse(hn::Gt(x, broadcast(88.3762F)), broadcast(std::numeric_limits<float>::infinity()), p);
  return hn::IfThenZeroElse(hn::Lt(x, broadcast(-87.3365F)), p);
}

/// 1 / (1 + exp(x)) and 1 / (1 + exp(-x)): 1 if the exponential vanishes, 0 if it is infinite. A
/// division, since processors' estimates of reciprocals differ, and gelu's slope multiplies what one is short
/// of 1 by x³.
HWY_INLINE Float sigmoid_of_negated(Float x) {
  return hn::Div(broadcast(1.0F), hn::Add(broadcast(1.0F), exponential(x)));
}
HWY_INLINE Float sigmoid(Float x) {
  return sigmoid_of_negated(hn::Neg(x));
}

/// tanh: a polynomial (Cephes' tanhf) near zero, where 1 - 2 / (1 + exp(2x)) would lose digits.
HWY_INLINE Float hyperbolic_tangent(Float x) {
  const Float square = hn::Mul(x, x);
  Float p = hn::MulAdd(broadcast(-5.70498872745e-3F), square, broadcast(2.06390887954e-2F));
  p = hn::MulAdd(p, square, broadcast(-5.37397155531e-2F));
  p = hn::MulAdd(p, square, broadcast(1.33314422036e-1F));
  p = hn::MulAdd(p, square, broadcast(-3.33332819422e-1F));
  const Float near = hn::MulAdd(hn::Mul(p, square), x, x);
  const Float far = hn::NegMulAdd(broadcast(2.0F), sigmoid_of_negated(hn::Add(x, x)), broadcast(1.0F));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), broadcast(0.625F)), near, far);
}

/// cap · tanh(factor · x / cap).
struct SoftCap {
  float cap;
  float factor = 1;

  HWY_INLINE Float tangent(Float x) const { return hyperbolic_tangent(hn::Mul(x, broadcast(factor / cap))); }
  HWY_INLINE Float operator()(Float x) const { return hn::Mul(broadcast(cap), tangent(x)); }
  /// The derivative by factor · x, where tangent(x) is this.
  static HWY_INLINE Float slope_at(Float tangent) { return hn::NegMulAdd(tangent, tangent, broadcast(1.0F)); }
};

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
