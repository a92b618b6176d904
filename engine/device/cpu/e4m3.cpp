#include "engine/device/cpu/e4m3.h"

#include <cassert>
#include <limits>
#include <span>

#include "base/float8_codes.h"
#include "base/nth.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/e4m3.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"
#include "engine/device/state_calls.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

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

HWY_EXPORT(round_rows);

namespace {

std::span<bfloat16> numbers(const Matrix& row) {
  return span_of(row.row<bfloat16>(0), row.columns);
}

}  // namespace

void round_to_e4m3(TaskArena& pool, const Matrix& from, const Matrix& to) {
  assert(from.dtype == DType::bf16 && to.dtype == DType::bf16);
  assert(from.rows == to.rows && from.columns == to.columns);
  const std::int64_t rows = rows_per_task(from.columns);
  LargestMagnitude largest;
  pool.for_ranges(from.rows, rows, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t row = first; row < last; ++row) largest.raise(numbers(from.row_slice(row, 1)));
  });
  const Float8Scale scale = largest.scale();
  pool.for_ranges(from.rows, rows, [&](std::int64_t first, std::int64_t last, int) {
    HWY_DYNAMIC_DISPATCH(round_rows)
    (from.row_slice(first, last - first), to.row_slice(first, last - first), scale);
  });
}

void run_on_cpu(CpuContext& context, const EncodeFloat8& call) {
  assert(call.x.rows == 1 && call.x.columns == std::ssize(call.codes));
  context.pool.execute([&] { *call.scale = encode_float8(numbers(call.x), call.codes); });
}

void run_on_cpu(CpuContext& context, const DecodeFloat8& call) {
  assert(call.out.rows == 1 && call.out.columns == std::ssize(call.codes));
  context.pool.execute([&] { decode_float8(call.codes, call.scale->inverse, numbers(call.out)); });
}

}  // namespace strata
#endif
