#include "engine/device/cpu/e4m3.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <limits>

#include "base/float8.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/e4m3.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

/// The bits of the largest finite magnitude: numbers of bf16 that are not negative stand in the order of
/// their bits.
std::int16_t largest_bits(const Matrix& x) {
  constexpr std::int16_t kMagnitude = 0x7fff, kLargestFinite = 0x7f7f;
  const hn::ScalableTag<std::int16_t> tag;
  const auto magnitude = hn::Set(tag, kMagnitude), largest_finite = hn::Set(tag, kLargestFinite);
  const auto step = static_cast<std::int64_t>(hn::Lanes(tag));
  auto largest = hn::Zero(tag);
  std::int16_t largest_of_rest = 0;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const auto* bits = reinterpret_cast<const std::int16_t*>(x.row<const bfloat16>(row));
    std::int64_t i = 0;
    for (; i + step <= x.columns; i += step) {
      const auto each = hn::And(hn::LoadU(tag, bits + i), magnitude);
      largest = hn::Max(largest, hn::IfThenZeroElse(hn::Gt(each, largest_finite), each));
    }
    for (; i < x.columns; ++i) {
      const auto each = static_cast<std::int16_t>(bits[i] & kMagnitude);
      if (each <= kLargestFinite) largest_of_rest = std::max(largest_of_rest, each);
    }
  }
  return std::max(largest_of_rest, hn::GetLane(hn::MaxOfLanes(tag, largest)));
}

/// Float8Scale::rounded().
struct RoundToE4m3 {
  Float8Scale scale;

  HWY_INLINE Float operator()(Float x) const {
    const FloatTag floats;
    const WordTag words;
    const Float magnitude = hn::Abs(hn::Mul(x, broadcast(scale.factor())));
    const auto bits = hn::BitCast(words, magnitude);
    const auto odd = hn::And(hn::ShiftRight<20>(bits), hn::Set(words, 1U));
    const auto nearest =
        hn::And(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7ffffU))), hn::Set(words, 0xfff00000U));
    const Float normal = hn::Min(hn::BitCast(floats, nearest), broadcast(448.0F));
    // The last bit of the sum is 2^-9, that of subnormal numbers.
    const Float aligned = broadcast(0x1p14F);
    const Float subnormal = hn::Sub(hn::Add(magnitude, aligned), aligned);
    const Float rounded = hn::IfThenElse(hn::Lt(magnitude, broadcast(0x1p-6F)), subnormal, normal);
    const Float result = hn::CopySign(hn::Mul(rounded, broadcast(scale.inverse())), x);
    return hn::IfThenElse(hn::IsFinite(x), result, broadcast(std::numeric_limits<float>::quiet_NaN()));
  }
};

void round_rows(const Matrix& from, const Matrix& to, Float8Scale scale) {
  for (std::int64_t row = 0; row < from.rows; ++row)
    map(from.row<const bfloat16>(row), to.row<bfloat16>(row), from.columns, RoundToE4m3{scale});
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(largest_bits);
HWY_EXPORT(round_rows);

void round_to_e4m3(TaskArena& pool, const Matrix& from, const Matrix& to) {
  assert(from.dtype == DType::bf16 && to.dtype == DType::bf16);
  assert(from.rows == to.rows && from.columns == to.columns);
  std::atomic<std::int16_t> largest = 0;
  const std::int64_t rows = rows_per_task(from.columns);
  pool.for_ranges(from.rows, rows, [&](std::int64_t first, std::int64_t last, int) {
    const std::int16_t own = HWY_DYNAMIC_DISPATCH(largest_bits)(from.row_slice(first, last - first));
    std::int16_t known = largest;
    while (known < own && !largest.compare_exchange_weak(known, own)) {
    }
  });
  bfloat16 magnitude;
  magnitude.bits = static_cast<std::uint16_t>(largest.load());
  const Float8Scale scale = Float8Scale::of(static_cast<float>(magnitude));
  pool.for_ranges(from.rows, rows, [&](std::int64_t first, std::int64_t last, int) {
    HWY_DYNAMIC_DISPATCH(round_rows)
    (from.row_slice(first, last - first), to.row_slice(first, last - first), scale);
  });
}

}  // namespace strata
#endif
