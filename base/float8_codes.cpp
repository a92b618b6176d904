#include "base/float8_codes.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/float8_codes.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "base/storage_vectors-inl.h"
#include "base/task_arena.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Codes = hn::Rebind<std::uint8_t, Floats>;

/// Numbers of bf16 that are not negative stand in the order of their bits.
std::int16_t largest_bits(const bfloat16* values, std::size_t count) {
  constexpr std::int16_t kMagnitude = 0x7fff, kLargestFinite = 0x7f7f;
  const hn::ScalableTag<std::int16_t> tag;
  const auto magnitude = hn::Set(tag, kMagnitude), largest_finite = hn::Set(tag, kLargestFinite);
  const auto* bits = reinterpret_cast<const std::int16_t*>(values);
  auto largest = hn::Zero(tag);
  std::size_t i = 0;
  for (; i + hn::Lanes(tag) <= count; i += hn::Lanes(tag)) {
    const auto each = hn::And(hn::LoadU(tag, bits + i), magnitude);
    largest = hn::Max(largest, hn::IfThenZeroElse(hn::Gt(each, largest_finite), each));
  }
  std::int16_t result = hn::GetLane(hn::MaxOfLanes(tag, largest));
  for (; i < count; ++i) {
    const auto each = static_cast<std::int16_t>(bits[i] & kMagnitude);
    if (each <= kLargestFinite) result = std::max(result, each);
  }
  return result;
}

/// The vector form of float8_e4m3's constructor: the code in the low byte of each lane.
HWY_INLINE hn::Vec<WordsOf<Floats>> code_bits(hn::Vec<Floats> value) {
  const Floats floats;
  const WordsOf<Floats> words;
  const hn::RebindToSigned<Floats> integers;  // magnitudes are below 2^31
  const auto word = hn::BitCast(words, value);
  const auto magnitude = hn::And(word, hn::Set(words, 0x7fffffffU));
  const auto is_below = [&](std::uint32_t limit) HWY_ATTR {
    return hn::RebindMask(
        words, hn::Lt(hn::BitCast(integers, magnitude), hn::Set(integers, static_cast<std::int32_t>(limit))));
  };
  const auto odd = hn::And(hn::ShiftRight<20>(magnitude), hn::Set(words, 1U));
  const auto rebiased =
      hn::ShiftRight<20>(hn::Add(magnitude, hn::Add(odd, hn::Set(words, 0x7ffffU - 0x3c000000U))));
  const auto normal = hn::Min(rebiased, hn::Set(words, 0x7eU));
  const auto aligned = hn::Add(hn::BitCast(floats, magnitude), hn::Set(floats, 0x1p14F));
  const auto subnormal = hn::Sub(hn::BitCast(words, aligned), hn::Set(words, 0x46800000U));
  const auto finite = hn::IfThenElse(is_below(0x3c800000U), subnormal, normal);
  const auto code = hn::IfThenElse(is_below(0x7f800000U), finite, hn::Set(words, 0x7fU));
  return hn::Or(hn::And(hn::ShiftRight<24>(word), hn::Set(words, 0x80U)), code);
}

void encode_codes(const bfloat16* values, std::size_t count, Float8Scale scale, std::uint8_t* codes) {
  const Floats floats;
  const auto factor = hn::Set(floats, scale.factor());
  std::size_t i = 0;
  for (; i + hn::Lanes(floats) <= count; i += hn::Lanes(floats)) {
    const auto bits = hn::LoadU(HalvesOf<Floats>(), reinterpret_cast<const std::uint16_t*>(values + i));
    const auto value = hn::Mul(from_bits(floats, bits, values), factor);
    hn::StoreU(hn::DemoteTo(Codes(), hn::BitCast(hn::RebindToSigned<Floats>(), code_bits(value))), Codes(),
               codes + i);
  }
  for (; i < count; ++i) codes[i] = float8_e4m3(static_cast<float>(values[i]) * scale.factor()).bits;
}

void decode_codes(const std::uint8_t* codes, std::size_t count, float inverse, bfloat16* values) {
  const Floats floats;
  const WordsOf<Floats> words;
  const hn::RebindToSigned<Floats> integers;
  const auto scale = hn::Set(floats, inverse);
  std::size_t i = 0;
  for (; i + hn::Lanes(floats) <= count; i += hn::Lanes(floats)) {
    const auto code = hn::PromoteTo(words, hn::LoadU(Codes(), codes + i));
    const auto magnitude = hn::And(code, hn::Set(words, 0x7fU));
    const auto signed_magnitude = hn::BitCast(integers, magnitude);
    const auto is_above = [&](std::int32_t limit) HWY_ATTR {
      return hn::RebindMask(words, hn::Gt(signed_magnitude, hn::Set(integers, limit)));
    };
    const auto normal = hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(words, 0x3c000000U));
    const auto subnormal =
        hn::BitCast(words, hn::Mul(hn::ConvertTo(floats, signed_magnitude), hn::Set(floats, 0x1p-9F)));
    const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(words, 0x80U)));
    const auto value =
        hn::Mul(hn::BitCast(floats, hn::Or(hn::IfThenElse(is_above(7), normal, subnormal), sign)), scale);
    const auto bits = hn::IfThenElse(is_above(0x7e), hn::Set(words, 0x7fc00000U), hn::BitCast(words, value));
    hn::StoreU(low_halves(floats, hn::ShiftRight<16>(bits)), HalvesOf<Floats>(),
               reinterpret_cast<std::uint16_t*>(values + i));
  }
  for (; i < count; ++i) values[i] = decoded_float8(codes[i], inverse);
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(largest_bits);
HWY_EXPORT(encode_codes);
HWY_EXPORT(decode_codes);

namespace {

/// Numbers that one thread works on at a time.
constexpr std::int64_t kGrain = 64 * 1024;

}  // namespace

void LargestMagnitude::raise(std::span<const bfloat16> values) {
  const std::int16_t own = HWY_DYNAMIC_DISPATCH(largest_bits)(values.data(), values.size());
  std::int16_t known = bits_;
  while (known < own && !bits_.compare_exchange_weak(known, own)) {
  }
}

Float8Scale LargestMagnitude::scale() const {
  bfloat16 largest;
  largest.bits = static_cast<std::uint16_t>(bits_.load());
  return Float8Scale::of(static_cast<float>(largest));
}

Float8Factors encode_float8(std::span<const bfloat16> values, std::span<std::uint8_t> codes) {
  assert(values.size() == codes.size());
  LargestMagnitude largest;
  for_ranges(std::ssize(values), kGrain, [&](std::int64_t first, std::int64_t last, int) {
    largest.raise(values.subspan(std::size_t(first), std::size_t(last - first)));
  });
  const Float8Scale scale = largest.scale();
  for_ranges(std::ssize(values), kGrain, [&](std::int64_t first, std::int64_t last, int) {
    HWY_DYNAMIC_DISPATCH(encode_codes)
    (values.data() + first, std::size_t(last - first), scale, codes.data() + first);
  });
  return scale.factors();
}

void decode_float8(std::span<const std::uint8_t> codes, float inverse, std::span<bfloat16> values) {
  assert(values.size() == codes.size());
  for_ranges(std::ssize(values), kGrain, [&](std::int64_t first, std::int64_t last, int) {
    HWY_DYNAMIC_DISPATCH(decode_codes)
    (codes.data() + first, std::size_t(last - first), inverse, values.data() + first);
  });
}

}  // namespace strata
#endif
