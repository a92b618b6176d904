// Vectors of floats from stored elements and back, compiled once per instruction set by Highway's
// foreach_target (hence no include guard in the usual sense). Every target rounds with the bits of
// base/dtype.h, which Highway's own conversions do not promise: to bf16, and without hardware support
// to fp16, they truncate.
#if defined(STRATA_BASE_STORAGE_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_BASE_STORAGE_VECTORS_INL_H
#undef STRATA_BASE_STORAGE_VECTORS_INL_H
#else
#define STRATA_BASE_STORAGE_VECTORS_INL_H
#endif

#include <cstdint>

#include "base/dtype.h"
#include "base/vector_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>  // of floats
using WordsOf = hn::RebindToUnsigned<D>;
/// The bits of as many 16-bit elements.
template <class D>
using HalvesOf = hn::Rebind<std::uint16_t, D>;

/// The rounded bf16's bits in the low half of each lane: to nearest even, NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<WordsOf<D>> bf16_bits(D /*floats*/, hn::Vec<D> value) {
  const WordsOf<D> words;
  const auto word = hn::BitCast(words, value);
  const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(words, 1U));
  const auto nearest = hn::Add(word, hn::Add(odd, hn::Set(words, 0x7fffU)));
  const auto quiet = hn::Or(word, hn::Set(words, 0x400000U));
  return hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), quiet, nearest));
}

/// The low halves of the lanes, whose high halves are zero.
template <class D>
HWY_INLINE hn::Vec<HalvesOf<D>> low_halves(D /*floats*/, hn::Vec<WordsOf<D>> bits) {
  // They fit 16 bits, so the saturating conversion is exact.
  return hn::DemoteTo(HalvesOf<D>(), hn::BitCast(hn::RebindToSigned<D>(), bits));
}

/// Whether the target has instructions for fp16; those of x86 round and treat NaNs like float16 does.
constexpr bool kConvertsFp16 = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2;

/// The vector form of float16's constructor: the bits in the low half of each lane.
template <class D>
HWY_INLINE hn::Vec<WordsOf<D>> fp16_bits(D floats, hn::Vec<D> value) {
  const WordsOf<D> words;
  const hn::RebindToSigned<D> integers;  // magnitudes are below 2^31, and more targets compare signed numbers
  const auto word = hn::BitCast(words, value);
  const auto magnitude = hn::And(word, hn::Set(words, 0x7fffffffU));
  const auto high = hn::ShiftRight<13>(magnitude);
  const auto is_below = [&](std::uint32_t limit) HWY_ATTR {
    const auto mask =
        hn::Lt(hn::BitCast(integers, magnitude), hn::Set(integers, static_cast<std::int32_t>(limit)));
    return hn::RebindMask(words, mask);
  };
  const auto odd = hn::And(high, hn::Set(words, 1U));
  const auto normal =
      hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, hn::Set(words, 0xfffU - 0x38000000U))));
  const auto aligned = hn::Add(hn::BitCast(floats, magnitude), hn::Set(floats, 0.5F));
  const auto subnormal = hn::Sub(hn::BitCast(words, aligned), hn::Set(words, 0x3f000000U));
  const auto finite = hn::IfThenElse(is_below(0x38800000U), subnormal, normal);
  const auto number = hn::IfThenElse(is_below(0x477ff000U), finite, hn::Set(words, 0x7c00U));
  const auto quiet = hn::Or(hn::And(high, hn::Set(words, 0x3ffU)), hn::Set(words, 0x7e00U));
  const auto half = hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), quiet, number);
  return hn::Or(hn::And(hn::ShiftRight<16>(word), hn::Set(words, 0x8000U)), half);
}

/// The vector form of float16's conversion to float, but for NaNs, which become quiet as in hardware.
template <class D>
HWY_INLINE hn::Vec<D> fp16_values(D floats, hn::Vec<HalvesOf<D>> bits) {
  const WordsOf<D> words;
  const hn::RebindToSigned<D> integers;
  const auto word = hn::PromoteTo(words, bits);
  const auto magnitude = hn::And(word, hn::Set(words, 0x7fffU));
  const auto signed_magnitude = hn::BitCast(integers, magnitude);
  const auto is_above = [&](std::int32_t limit) HWY_ATTR {
    return hn::RebindMask(words, hn::Gt(signed_magnitude, hn::Set(integers, limit)));
  };
  const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(words, 0x38000000U));
  const auto scaled = hn::Mul(hn::ConvertTo(floats, signed_magnitude), hn::Set(floats, 0x1p-24F));
  const auto finite = hn::IfThenElse(is_above(0x3ff), normal, hn::BitCast(words, scaled));
  // The exponent of infinities and NaNs moves from 31 to 255: twice as far as that of numbers.
  const auto special = hn::IfThenElseZero(is_above(0x7bff), hn::Set(words, 0x38000000U));
  const auto quiet = hn::IfThenElseZero(is_above(0x7c00), hn::Set(words, 0x400000U));
  const auto sign = hn::ShiftLeft<16>(hn::And(word, hn::Set(words, 0x8000U)));
  return hn::BitCast(floats, hn::Or(hn::Or(hn::Add(finite, special), quiet), sign));
}

/// Elements and their bits; the pointer only names the element's type.
template <class D>
HWY_INLINE hn::Vec<HalvesOf<D>> to_bits(D floats, hn::Vec<D> value, const bfloat16* /*type*/) {
  return low_halves(floats, bf16_bits(floats, value));
}
template <class D>
HWY_INLINE hn::Vec<HalvesOf<D>> to_bits(D floats, hn::Vec<D> value, const float16* /*type*/) {
  if constexpr (kConvertsFp16) {
    return hn::BitCast(HalvesOf<D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), value));
  } else {
    return low_halves(floats, fp16_bits(floats, value));
  }
}
template <class D>
HWY_INLINE hn::Vec<D> from_bits(D floats, hn::Vec<HalvesOf<D>> bits, const bfloat16* /*type*/) {
  return hn::BitCast(floats, hn::ShiftLeft<16>(hn::PromoteTo(WordsOf<D>(), bits)));
}
template <class D>
HWY_INLINE hn::Vec<D> from_bits(D floats, hn::Vec<HalvesOf<D>> bits, const float16* /*type*/) {
  if constexpr (kConvertsFp16) {
    return hn::PromoteTo(floats, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  } else {
    return fp16_values(floats, bits);
  }
}

/// One vector of elements, at any address.
template <class D>
HWY_INLINE hn::Vec<D> load_elements(D floats, const float* from) {
  return hn::LoadU(floats, from);
}
template <class D, typename T>
HWY_INLINE hn::Vec<D> load_elements(D floats, const T* from) {
  return from_bits(floats, hn::LoadU(HalvesOf<D>(), reinterpret_cast<const std::uint16_t*>(from)), from);
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
