// Compiled once per instruction set by foreach_target. Vectors of logarithms and cosines differ from the C
// library's in their last bits, 2^-51 at most when all arguments that occur were compared. So a number is
// taken from the vector only if everything within 2^-45 of it rounds to the same float; of others, one in
// about a million, the scalar code makes the float.
#include "base/normals.h"

#include <algorithm>
#include <numbers>

#include "base/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/normals.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "base/storage_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::ScalableTag<double>;
using Words = hn::RebindToUnsigned<Doubles>;
using Floats = hn::Rebind<float, Doubles>;
using Word = hn::Vec<Words>;

/// The product of the low halves of the lanes. What lies in the high half of a word is of no meaning.
HWY_INLINE Word product(Word a, std::uint32_t b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(Words(), std::uint64_t{b} * static_cast<std::uint32_t>(hn::GetLane(a)));
#else
  const hn::Repartition<std::uint32_t, Words> halves;
  return hn::MulEven(hn::BitCast(halves, a), hn::BitCast(halves, hn::Set(Words(), b)));
#endif
}

/// The first two words of CounterRandom::words(first), words(first + 1), … in the low halves.
HWY_INLINE void random_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, Word& word0,
                             Word& word1) {
  const Words d;
  const auto index = hn::Add(hn::Set(d, first), hn::Iota(d, 0));
  Word c0 = index, c1 = hn::ShiftRight<32>(index), c2 = hn::Set(d, stream), c3 = hn::Set(d, stream >> 32);
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto product0 = product(c0, 0xD2511F53U), product1 = product(c2, 0xCD9E8D57U);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(d, key0));
    c1 = product1;
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(d, key1));
    c3 = product0;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  word0 = c0;
  word1 = c1;
}

/// The low halves as numbers, exactly: they are the last bits of a double between 2^52 and 2^53.
HWY_INLINE hn::Vec<Doubles> as_doubles(Word word) {
  const Words d;
  const auto bits = hn::Or(hn::And(word, hn::Set(d, 0xffffffffU)), hn::Set(d, 0x4330000000000000U));
  return hn::Sub(hn::BitCast(Doubles(), bits), hn::Set(Doubles(), 0x1p52));
}

/// CounterRandom::normal() in vectors; true if all lanes are sure to have its bits.
HWY_INLINE bool normals(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                        hn::Vec<Floats>& result) {
  const Doubles d;
  Word word0, word1;
  random_words(seed, stream, first, word0, word1);
  const auto u = hn::Mul(hn::Add(as_doubles(word0), hn::Set(d, 1.0)), hn::Set(d, 0x1p-32));
  const auto angle =
      hn::Mul(hn::Set(d, 2.0 * std::numbers::pi), hn::Mul(as_doubles(word1), hn::Set(d, 0x1p-32)));
  const auto radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), hn::Log(d, u)));
  const auto exact = hn::Mul(radius, hn::Cos(d, angle));
  constexpr double kMargin = 0x1p-45;
  const Floats f;
  result = hn::DemoteTo(f, hn::Mul(exact, hn::Set(d, 1 - kMargin)));
  const auto other = hn::DemoteTo(f, hn::Mul(exact, hn::Set(d, 1 + kMargin)));
  // A zero may have either sign.
  return hn::AllTrue(f, hn::And(hn::Eq(result, other), hn::Ne(result, hn::Zero(f))));
}

void fill(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, float scale, std::span<float> out) {
  const Floats f;
  const std::size_t lanes = hn::Lanes(f);
  const CounterRandom random(seed, stream);
  std::size_t i = 0;
  for (; i + lanes <= out.size(); i += lanes) {
    hn::Vec<Floats> values;
    if (normals(seed, stream, first + i, values)) {
      hn::StoreU(hn::Mul(hn::Set(f, scale), values), f, out.data() + i);
    } else {
      for (std::size_t j = i; j < i + lanes; ++j) out[j] = scale * random.normal(first + j);
    }
  }
  for (; i < out.size(); ++i) out[i] = scale * random.normal(first + i);
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(fill);

void scaled_normals(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, float scale,
                    std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(fill)(seed, stream, first, scale, out);
}

}  // namespace strata
#endif
