// Rotary position embedding, in place. Every pair of elements is its own task item, so any split gives the
// same bits.
#include <cassert>

#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/rope.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/attention_calls.h"
#include "engine/device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

template <typename T>
HWY_INLINE void rotate_rows(const Rope& rope, std::int64_t begin, std::int64_t end) {
  const std::int64_t half = rope.cosine.columns;
  const Float direction = broadcast(rope.inverse ? -1.0F : 1.0F);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t position = position_of(rope.places, row, rope.sequence);
    const float* cosine = rope.cosine.row<float>(position);
    const float* sine = rope.sine.row<float>(position);
    for (std::int64_t head = 0; head < rope.x.columns; head += rope.head_dimension) {
      T* low = rope.x.row<T>(row) + head;
      T* high = low + half;
      for_vectors(half, [&](auto access, std::int64_t i) HWY_ATTR {
        const Float a = access.load(low + i);
        const Float b = access.load(high + i);
        const Float c = access.load(cosine + i);
        const Float s = hn::Mul(access.load(sine + i), direction);
        access.store(hn::NegMulAdd(b, s, hn::Mul(a, c)), low + i);
        access.store(hn::MulAdd(a, s, hn::Mul(b, c)), high + i);
      });
    }
  }
}

void rotate(const Rope& rope, std::int64_t begin, std::int64_t end) {
  with_storage_type(rope.x.dtype, [&]<typename T>(T) HWY_ATTR { rotate_rows<T>(rope, begin, end); });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(rotate);

void run_on_cpu(CpuContext& context, const Rope& rope) {
  assert(2 * rope.cosine.columns <= rope.head_dimension && rope.x.columns % rope.head_dimension == 0);
  context.pool.for_ranges(rope.x.rows, rows_per_task(rope.x.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(rotate)(rope, begin, end);
                          });
}

}  // namespace strata
#endif
