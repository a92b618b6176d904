// The vector forms of split_master.h and stochastic_rounding.h, with their bits, compiled once per
// instruction set by Highway's foreach_target (hence no include guard in the usual sense).
#if defined(STRATA_OPTIM_STATE_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_OPTIM_STATE_VECTORS_INL_H
#undef STRATA_OPTIM_STATE_VECTORS_INL_H
#else
#define STRATA_OPTIM_STATE_VECTORS_INL_H
#endif

#include <cstdint>

#include "base/dtype.h"
#include "base/storage_vectors-inl.h"
#include "optim/split_master.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_master(D floats, const bfloat16* parameter, const Remainder* remainder) {
  const WordsOf<D> words;
  const hn::RebindToSigned<D> integers;
  const auto high = hn::LoadU(HalvesOf<D>(), reinterpret_cast<const std::uint16_t*>(parameter));
  const auto low = hn::PromoteTo(integers, hn::LoadU(hn::Rebind<Remainder, D>(), remainder));
  return hn::BitCast(floats, hn::Add(hn::ShiftLeft<16>(hn::PromoteTo(words, high)), hn::BitCast(words, low)));
}

template <class D, class Parameter>
HWY_INLINE hn::Vec<D> load_master(D floats, const Parameter* /*a copy*/, const float* master) {
  return hn::LoadU(floats, master);
}

template <class D>
HWY_INLINE void store_master(D floats, hn::Vec<D> master, bfloat16* parameter, Remainder* remainder) {
  const WordsOf<D> words;
  const auto bits = hn::BitCast(words, master);
  const auto high = hn::ShiftRight<16>(hn::Add(bits, hn::Set(words, 0x8000U)));
  const auto low = hn::And(bits, hn::Set(words, 0xffffU));
  hn::StoreU(low_halves(floats, high), HalvesOf<D>(), reinterpret_cast<std::uint16_t*>(parameter));
  hn::StoreU(low_halves(floats, low), HalvesOf<D>(), reinterpret_cast<std::uint16_t*>(remainder));
}

/// mix_bits() of `counter` and its successors, one per lane.
template <class D>
HWY_INLINE hn::Vec<WordsOf<D>> random_bits(D /*floats*/, std::uint32_t counter) {
  const WordsOf<D> words;
  auto x = hn::Add(hn::Set(words, counter), hn::Iota(words, 0));  // an Iota of a variable goes through memory
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(words, 0x21f0aaadU));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(words, 0xd35a2d97U));
  return hn::Xor(x, hn::ShiftRight<15>(x));
}

/// round_stochastically() by the random words in the low halves of the lanes, whose high halves are zero.
template <class D>
HWY_INLINE void store_rounded(D floats, hn::Vec<D> value, hn::Vec<WordsOf<D>> random, bfloat16* to) {
  const WordsOf<D> words;
  const auto word = hn::BitCast(words, value);
  const auto exponent = hn::Set(words, 0x7f800000U);
  const auto special = hn::Eq(hn::And(word, exponent), exponent);
  const auto rounded = hn::Add(word, hn::IfThenZeroElse(special, random));
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(value));
  const auto quiet = hn::Or(rounded, hn::IfThenElseZero(is_nan, hn::Set(words, 0x400000U)));
  const auto bits = hn::ShiftRight<16>(quiet);
  hn::StoreU(low_halves(floats, bits), HalvesOf<D>(), reinterpret_cast<std::uint16_t*>(to));
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
