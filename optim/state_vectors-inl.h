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
#include <type_traits>

#include "base/dtype.h"
#include "base/storage_vectors-inl.h"
#include "optim/split_master.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The bits of as many 16-bit elements as two vectors have lanes.
template <class D>
using HalvesOfTwo = hn::Repartition<std::uint16_t, D>;

/// Two vectors of elements.
template <class Vector>
struct Two {
  Vector first, second;
};

/// How two vectors share the elements of a stretch: one follows the other, or `first` has those with even
/// indices and `second` those with odd ones. 16-bit elements alternate at the cost of a shift and a mask,
/// where their order would take shuffles; floats pay for it.
enum class Order { in_turn, alternating };

/// Whether a target's vectors alternate fast: with 512 bits one shuffle gives the order, and of floats two
/// would not do to alternate.
template <class D>
constexpr bool kAlternates = hn::MaxLanes(D()) == 4 || hn::MaxLanes(D()) == 8;

/// 16-bit elements as pairs in words: the even ones are the low halves.
template <class D, class T>
HWY_INLINE hn::Vec<WordsOf<D>> load_pairs(D /*floats*/, const T* from) {
  return hn::BitCast(WordsOf<D>(), hn::LoadU(HalvesOfTwo<D>(), reinterpret_cast<const std::uint16_t*>(from)));
}

template <Order order, class D, class T>
HWY_INLINE Two<hn::Vec<D>> load_two(D floats, const T* from) {
  if constexpr (order == Order::alternating && std::is_same_v<T, bfloat16>) {
    const auto pairs = load_pairs(floats, from);
    return {hn::BitCast(floats, hn::ShiftLeft<16>(pairs)),
            hn::BitCast(floats, hn::And(pairs, hn::Set(WordsOf<D>(), 0xffff0000U)))};
  } else {
    const auto low = load_elements(floats, from), high = load_elements(floats, from + hn::Lanes(floats));
#if HWY_TARGET != HWY_SCALAR
    if constexpr (order == Order::alternating)
      return {hn::ConcatEven(floats, high, low), hn::ConcatOdd(floats, high, low)};
#endif
    return {low, high};
  }
}

template <Order order, class D>
HWY_INLINE Two<hn::Vec<D>> load_masters(D floats, const bfloat16* parameter, const Remainder* remainder) {
  const WordsOf<D> words;
  const hn::RebindToSigned<D> integers;
  const auto joined = [&](auto high, auto low)
                          HWY_ATTR { return hn::BitCast(floats, hn::Add(high, hn::BitCast(words, low))); };
  if constexpr (order == Order::alternating) {
    const auto high = load_pairs(floats, parameter);
    const auto low = hn::BitCast(integers, load_pairs(floats, remainder));
    return {joined(hn::ShiftLeft<16>(high), hn::ShiftRight<16>(hn::ShiftLeft<16>(low))),
            joined(hn::And(high, hn::Set(words, 0xffff0000U)), hn::ShiftRight<16>(low))};
  } else {
    const auto one = [&](std::size_t at) HWY_ATTR {
      const auto high = hn::LoadU(HalvesOf<D>(), reinterpret_cast<const std::uint16_t*>(parameter) + at);
      const auto low = hn::LoadU(hn::Rebind<Remainder, D>(), remainder + at);
      return joined(hn::ShiftLeft<16>(hn::PromoteTo(words, high)), hn::PromoteTo(integers, low));
    };
    return {one(0), one(hn::Lanes(floats))};
  }
}

/// `master`: a float, or a bf16 parameter that is its own.
template <Order order, class D, class Parameter, class Master>
HWY_INLINE Two<hn::Vec<D>> load_masters(D floats, const Parameter* /*a copy*/, const Master* master) {
  return load_two<order>(floats, master);
}

/// bf16_bits() in the high halves; the low ones are of no use. REQUIRES for `numbers_only`: no NaNs.
template <bool numbers_only, class D>
HWY_INLINE hn::Vec<WordsOf<D>> nearest_words(D /*floats*/, hn::Vec<D> value) {
  const WordsOf<D> words;
  const auto word = hn::BitCast(words, value);
  const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(words, 1U));
  const auto nearest = hn::Add(word, hn::Add(odd, hn::Set(words, 0x7fffU)));
  if constexpr (numbers_only) {
    return nearest;
  } else {
    const auto quiet = hn::Or(word, hn::Set(words, 0x400000U));
    return hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), quiet, nearest);
  }
}

/// The same elements, one vector behind the other.
template <Order order, class D>
HWY_INLINE Two<hn::Vec<D>> in_turn([[maybe_unused]] D floats, const Two<hn::Vec<D>>& values) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (order == Order::alternating) {
    const auto low = hn::InterleaveLower(floats, values.first, values.second);
    const auto high = hn::InterleaveUpper(floats, values.first, values.second);
    if constexpr (hn::MaxLanes(floats) == 4) {
      return {low, high};
    } else {  // x86 interleaves within each 128 bits
      return {hn::ConcatLowerLower(floats, high, low), hn::ConcatUpperUpper(floats, high, low)};
    }
  }
#endif
  return values;
}

enum class Stores { cached, streamed };

#if HWY_TARGET == HWY_SCALAR
template <Stores stores, Order /*order*/, class D>
HWY_INLINE void store_high_halves(D floats, hn::Vec<WordsOf<D>> first, hn::Vec<WordsOf<D>> second,
                                  std::uint16_t* to) {
  hn::StoreU(low_halves(floats, hn::ShiftRight<16>(first)), HalvesOf<D>(), to);
  hn::StoreU(low_halves(floats, hn::ShiftRight<16>(second)), HalvesOf<D>(), to + 1);
}
#else
/// The high halves of the lanes of two vectors, in the order of their elements.
template <Order order, class D>
HWY_INLINE hn::Vec<HalvesOfTwo<D>> high_halves(D /*floats*/, hn::Vec<WordsOf<D>> first,
                                               hn::Vec<WordsOf<D>> second) {
  if constexpr (order == Order::alternating) {
    const HalvesOfTwo<D> elements;
    return hn::OddEven(hn::BitCast(elements, second), hn::BitCast(elements, hn::ShiftRight<16>(first)));
  }
  const hn::RebindToSigned<D> integers;
  const hn::RebindToSigned<HalvesOfTwo<D>> halves;
  // With their sign they fit 16 bits, so the saturating conversion is exact.
  const auto a = hn::ShiftRight<16>(hn::BitCast(integers, first));
  const auto b = hn::ShiftRight<16>(hn::BitCast(integers, second));
  constexpr std::size_t kWords = hn::MaxLanes(WordsOf<D>());
  if constexpr (HWY_ARCH_X86 && kWords > 4) {
    // x86 narrows within each 128 bits: pairs of words alternate between `first` and `second`.
    HWY_ALIGN static constexpr auto kOrder = [] {
      std::array<std::int32_t, kWords> places{};
      for (std::size_t i = 0; i < kWords; ++i) {
        const std::size_t place = i % (kWords / 2);
        places[i] = static_cast<std::int32_t>(place / 2 * 4 + place % 2 + (i < kWords / 2 ? 0 : 2));
      }
      return places;
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

template <Stores stores, Order order, class D>
HWY_INLINE void store_high_halves(D floats, hn::Vec<WordsOf<D>> first, hn::Vec<WordsOf<D>> second,
                                  std::uint16_t* to) {
  const HalvesOfTwo<D> halves;
  const auto both = high_halves<order>(floats, first, second);
  stores == Stores::streamed ? hn::Stream(both, halves, to) : hn::StoreU(both, halves, to);
}
#endif

/// Stores two vectors of floats as elements. REQUIRES for streamed stores: `to` is aligned to its vector; for
/// `numbers_only`: no NaNs.
template <Stores stores, bool numbers_only, Order order, class D>
HWY_INLINE void store_two(D floats, const Two<hn::Vec<D>>& values, bfloat16* to) {
  store_high_halves<stores, order>(floats, nearest_words<numbers_only>(floats, values.first),
                                   nearest_words<numbers_only>(floats, values.second),
                                   reinterpret_cast<std::uint16_t*>(to));
}
template <Stores /*stores: fp16 is trained with seldom*/, bool /*numbers_only*/, Order order, class D>
HWY_INLINE void store_two(D floats, const Two<hn::Vec<D>>& values, float16* to) {
  auto* bits = reinterpret_cast<std::uint16_t*>(to);
  const auto turns = in_turn<order>(floats, values);
  hn::StoreU(to_bits(floats, turns.first, to), HalvesOf<D>(), bits);
  hn::StoreU(to_bits(floats, turns.second, to), HalvesOf<D>(), bits + hn::Lanes(floats));
}
template <Order order, class D>
HWY_INLINE void store_floats(D floats, const Two<hn::Vec<D>>& values, float* to) {
  const auto turns = in_turn<order>(floats, values);
  hn::StoreU(turns.first, floats, to);
  hn::StoreU(turns.second, floats, to + hn::Lanes(floats));
}

/// The bits that split_master() rounds and cuts off.
template <Order order, class D>
HWY_INLINE void store_masters(D floats, const Two<hn::Vec<D>>& masters, bfloat16* parameter,
                              Remainder* remainder) {
  const WordsOf<D> words;
  const auto a = hn::BitCast(words, masters.first), b = hn::BitCast(words, masters.second);
  const auto half = hn::Set(words, 0x8000U);
  store_high_halves<Stores::cached, order>(floats, hn::Add(a, half), hn::Add(b, half),
                                           reinterpret_cast<std::uint16_t*>(parameter));
  store_high_halves<Stores::cached, order>(floats, hn::ShiftLeft<16>(a), hn::ShiftLeft<16>(b),
                                           reinterpret_cast<std::uint16_t*>(remainder));
}

/// mix_bits() of each lane.
template <class D>
HWY_INLINE hn::Vec<WordsOf<D>> mixed_bits(D /*floats*/, hn::Vec<WordsOf<D>> x) {
  const WordsOf<D> words;
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(words, 0x21f0aaadU));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(words, 0xd35a2d97U));
  return hn::Xor(x, hn::ShiftRight<15>(x));
}

/// mix_bits() of `counter` and its successors, one per element.
template <Order order, class D>
HWY_INLINE Two<hn::Vec<WordsOf<D>>> random_bits(D floats, std::uint32_t counter) {
  constexpr bool kAlternating = order == Order::alternating;
  const WordsOf<D> words;
  const auto indices = hn::Iota(words, 0);  // an Iota of a variable goes through memory
  const auto first = hn::Add(hn::Set(words, counter), kAlternating ? hn::Add(indices, indices) : indices);
  const auto between = static_cast<std::uint32_t>(kAlternating ? 1 : hn::Lanes(words));
  return {mixed_bits(floats, first), mixed_bits(floats, hn::Add(first, hn::Set(words, between)))};
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

/// Rounds and stores a moment by one half of its elements' random words: the low one if `half` is 0, else the
/// high one.
template <bool numbers_only, Order order, int half, class D>
HWY_INLINE void store_rounded(D floats, const Two<hn::Vec<D>>& moment, const Two<hn::Vec<WordsOf<D>>>& random,
                              bfloat16* to) {
  static_assert(half == 0 || half == 1);
  const auto bits = [](hn::Vec<WordsOf<D>> word) HWY_ATTR {
    if constexpr (half == 0) {
      return hn::And(word, hn::Set(WordsOf<D>(), 0xffffU));
    } else {
      return hn::ShiftRight<16>(word);
    }
  };
  store_high_halves<Stores::cached, order>(floats,
                                           rounded<numbers_only>(floats, moment.first, bits(random.first)),
                                           rounded<numbers_only>(floats, moment.second, bits(random.second)),
                                           reinterpret_cast<std::uint16_t*>(to));
}

/// Whether the sum of values is finite in every lane: then none of them is infinite or NaN. A sum may
/// overflow though all are numbers, which costs no more than time.
template <class D>
HWY_INLINE bool is_finite(D floats, hn::Vec<D> sum) {
  // NaN for infinities and NaNs, else zero.
  return hn::AllTrue(floats, hn::Eq(hn::Sub(sum, sum), hn::Zero(floats)));
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
