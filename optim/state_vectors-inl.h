// The vector forms of split_master.h and stochastic_rounding.h, with their bits, compiled once per
// instruction set by Highway's foreach_target (hence no include guard in the usual sense).
#if defined(STRATA_OPTIM_STATE_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_OPTIM_STATE_VECTORS_INL_H
#undef STRATA_OPTIM_STATE_VECTORS_INL_H
#else
#define STRATA_OPTIM_STATE_VECTORS_INL_H
#endif

#include <array>
#include <cstdint>

#include "base/dtype.h"
#include "base/storage_vectors-inl.h"
#include "optim/split_master.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The bits of as many 16-bit elements as two vectors have lanes.
template <class D>
using HalvesOfTwo = hn::Repartition<std::uint16_t, D>;

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

/// bf16_bits() in the high halves; the low ones are of no use.
template <class D>
HWY_INLINE hn::Vec<WordsOf<D>> nearest_words(D /*floats*/, hn::Vec<D> value) {
  const WordsOf<D> words;
  const auto word = hn::BitCast(words, value);
  const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(words, 1U));
  const auto nearest = hn::Add(word, hn::Add(odd, hn::Set(words, 0x7fffU)));
  const auto quiet = hn::Or(word, hn::Set(words, 0x400000U));
  return hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), quiet, nearest);
}

enum class Stores { cached, streamed };

#if HWY_TARGET == HWY_SCALAR
template <Stores stores, class D>
HWY_INLINE void store_high_halves(D floats, hn::Vec<WordsOf<D>> first, hn::Vec<WordsOf<D>> second,
                                  std::uint16_t* to) {
  hn::StoreU(low_halves(floats, hn::ShiftRight<16>(first)), HalvesOf<D>(), to);
  hn::StoreU(low_halves(floats, hn::ShiftRight<16>(second)), HalvesOf<D>(), to + 1);
}
#else
/// The high halves of the lanes of two vectors, in their order.
template <class D>
HWY_INLINE hn::Vec<HalvesOfTwo<D>> high_halves(D /*floats*/, hn::Vec<WordsOf<D>> first,
                                               hn::Vec<WordsOf<D>> second) {
  const hn::RebindToSigned<D> integers;
  const hn::RebindToSigned<HalvesOfTwo<D>> halves;
  // With their sign they fit 16 bits, so the saturating conversion is exact.
  const auto a = hn::ShiftRight<16>(hn::BitCast(integers, first));
  const auto b = hn::ShiftRight<16>(hn::BitCast(integers, second));
  constexpr std::size_t kWords = hn::MaxLanes(WordsOf<D>());
  if constexpr (HWY_ARCH_X86 && kWords > 4) {
    // x86 narrows within each 128 bits: pairs of words alternate between `first` and `second`.
    HWY_ALIGN static constexpr auto kOrder = [] {
      std::array<std::int32_t, kWords> order{};
      for (std::size_t i = 0; i < kWords; ++i) {
        const std::size_t place = i % (kWords / 2);
        order[i] = static_cast<std::int32_t>(place / 2 * 4 + place % 2 + (i < kWords / 2 ? 0 : 2));
      }
      return order;
    }();
    const WordsOf<D> words;
    const auto mixed = hn::BitCast(words, hn::ReorderDemote2To(halves, a, b));
    return hn::BitCast(HalvesOfTwo<D>(),
                       hn::TableLookupLanes(mixed, hn::SetTableIndices(words, kOrder.data())));
  } else {
    const hn::Half<decltype(halves)> half;
    return hn::BitCast(HalvesOfTwo<D>(), hn::Combine(halves, hn::DemoteTo(half, b), hn::DemoteTo(half, a)));
  }
}

template <Stores stores, class D>
HWY_INLINE void store_high_halves(D floats, hn::Vec<WordsOf<D>> first, hn::Vec<WordsOf<D>> second,
                                  std::uint16_t* to) {
  const HalvesOfTwo<D> halves;
  const auto both = high_halves(floats, first, second);
  stores == Stores::streamed ? hn::Stream(both, halves, to) : hn::StoreU(both, halves, to);
}
#endif

/// Stores two vectors of floats as elements. REQUIRES for streamed stores: `to` is aligned to its vector.
template <Stores stores, class D>
HWY_INLINE void store_two(D floats, hn::Vec<D> first, hn::Vec<D> second, bfloat16* to) {
  store_high_halves<stores>(floats, nearest_words(floats, first), nearest_words(floats, second),
                            reinterpret_cast<std::uint16_t*>(to));
}
template <Stores /*stores: fp16 is trained with seldom*/, class D>
HWY_INLINE void store_two(D floats, hn::Vec<D> first, hn::Vec<D> second, float16* to) {
  auto* bits = reinterpret_cast<std::uint16_t*>(to);
  hn::StoreU(to_bits(floats, first, to), HalvesOf<D>(), bits);
  hn::StoreU(to_bits(floats, second, to), HalvesOf<D>(), bits + hn::Lanes(floats));
}

/// The bits that split_master() rounds and cuts off.
template <class D>
HWY_INLINE void store_masters(D floats, hn::Vec<D> first, hn::Vec<D> second, bfloat16* parameter,
                              Remainder* remainder) {
  const WordsOf<D> words;
  const auto a = hn::BitCast(words, first), b = hn::BitCast(words, second);
  const auto half = hn::Set(words, 0x8000U);
  store_high_halves<Stores::cached>(floats, hn::Add(a, half), hn::Add(b, half),
                                    reinterpret_cast<std::uint16_t*>(parameter));
  store_high_halves<Stores::cached>(floats, hn::ShiftLeft<16>(a), hn::ShiftLeft<16>(b),
                                    reinterpret_cast<std::uint16_t*>(remainder));
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

/// round_stochastically() by random words below 2^16, in the high halves. REQUIRES for `numbers_only`:
/// neither infinities nor NaNs.
template <bool numbers_only, class D>
HWY_INLINE hn::Vec<WordsOf<D>> rounded(D /*floats*/, hn::Vec<D> value, hn::Vec<WordsOf<D>> random) {
  const WordsOf<D> words;
  const auto word = hn::BitCast(words, value);
  if constexpr (numbers_only) {
    return hn::Add(word, random);
  } else {
    const auto exponent = hn::Set(words, 0x7f800000U);
    const auto special = hn::Eq(hn::And(word, exponent), exponent);
    const auto is_nan = hn::RebindMask(words, hn::IsNaN(value));
    return hn::Or(hn::Add(word, hn::IfThenZeroElse(special, random)),
                  hn::IfThenElseZero(is_nan, hn::Set(words, 0x400000U)));
  }
}

/// Both moments of an element, and the random word that rounds them.
template <class D>
struct Moments {
  hn::Vec<D> exp_avg, exp_avg_sq;
  hn::Vec<WordsOf<D>> random;
};

template <bool numbers_only, class D>
HWY_INLINE void store_rounded(D floats, const Moments<D>& first, const Moments<D>& second, bfloat16* exp_avg,
                              bfloat16* exp_avg_sq) {
  const auto low = hn::Set(WordsOf<D>(), 0xffffU);
  store_high_halves<Stores::cached>(
      floats, rounded<numbers_only>(floats, first.exp_avg, hn::And(first.random, low)),
      rounded<numbers_only>(floats, second.exp_avg, hn::And(second.random, low)),
      reinterpret_cast<std::uint16_t*>(exp_avg));
  store_high_halves<Stores::cached>(
      floats, rounded<numbers_only>(floats, first.exp_avg_sq, hn::ShiftRight<16>(first.random)),
      rounded<numbers_only>(floats, second.exp_avg_sq, hn::ShiftRight<16>(second.random)),
      reinterpret_cast<std::uint16_t*>(exp_avg_sq));
}

/// Whether all of them are numbers, as they are in a run that goes well.
template <class D>
HWY_INLINE bool are_numbers(D /*floats*/, const Moments<D>& first, const Moments<D>& second) {
  const WordsOf<D> words;
  const hn::RebindToSigned<D> integers;  // magnitudes are, and more targets compare signed numbers
  const auto magnitude = [&](hn::Vec<D> value) HWY_ATTR {
    return hn::BitCast(integers, hn::And(hn::BitCast(words, value), hn::Set(words, 0x7fffffffU)));
  };
  const auto largest = hn::Max(hn::Max(magnitude(first.exp_avg), magnitude(second.exp_avg)),
                               hn::Max(magnitude(first.exp_avg_sq), magnitude(second.exp_avg_sq)));
  return hn::AllFalse(integers, hn::Gt(largest, hn::Set(integers, 0x7f7fffff)));
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
