#include "base/dropout.h"

#include <cassert>

#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/dropout.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"
#include "engine/device/elementwise_calls.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

using Words = hn::Vec<WordTag>;

/// strata::mixed().
HWY_INLINE Words mix(Words x) {
  const WordTag words;
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(words, 0x85ebca6bU));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<13>(x)), hn::Set(words, 0xc2b2ae35U));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

void drop_rows(const Dropout& call, std::int64_t begin, std::int64_t end) {
  const WordTag words;
  const std::uint32_t threshold = dropout_threshold(call.probability);
  with_storage_type(call.x.dtype, [&]<typename T>(T) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int32_t key = nth(call.keys, row);
      const bool keeps_all = key == kWithoutDropout;
      const Words of_row = hn::Set(words, dropout_row(key, call.site));
      const Words least = hn::Set(words, keeps_all ? 0U : threshold);
      const Float factor = broadcast(keeps_all ? 1.0F : dropout_factor(call.probability));
      const T* from = call.x.row<const T>(row);
      T* to = call.out.row<T>(row);
      for_vectors(call.x.columns, [&](auto access, std::int64_t i) HWY_ATTR {
        const auto column = static_cast<std::uint32_t>(call.first_column + i);
        const Words columns = hn::Iota(words, column + 0x85ebca77U);
        const auto dropped = hn::Lt(mix(hn::Xor(of_row, mix(columns))), least);
        const Float value = hn::Mul(access.load(from + i), factor);
        access.store(hn::IfThenZeroElse(hn::RebindMask(FloatTag(), dropped), value), to + i);
      });
    }
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(drop_rows);

}  // namespace

void run_on_cpu(CpuContext& context, const Dropout& call) {
  assert(std::ssize(call.keys) == call.x.rows);
  context.pool.for_ranges(call.x.rows, rows_per_task(call.x.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(drop_rows)(call, begin, end);
                          });
}

}  // namespace strata
#endif
