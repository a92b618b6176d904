// Compiled once per instruction set by foreach_target. Element i of a block always goes to accumulator i mod
// 32, whatever the vector length, and a float's square is exact in double, so every target gives the same
// bits, fused or not.
#include "optim/gradient_norm.h"

#include <algorithm>
#include <cstring>

#include "base/storage_type.h"
#include "base/task_arena.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/gradient_norm.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "base/storage_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;
using Floats = hn::Rebind<float, Doubles>;

constexpr std::int64_t kAccumulators = 32;
/// Elements that stay in the first-level cache while narrow targets pass over them several times.
constexpr std::int64_t kTile = 4096;

template <class T>
HWY_INLINE hn::Vec<Doubles> load(const T* from) {
  return hn::PromoteTo(Doubles(), load_elements(Floats(), from));
}

/// Adds the squares of `elements`, a multiple of kAccumulators, to the accumulators: four vectors of them per
/// pass.
template <class T>
HWY_INLINE void add_squares(const T* values, std::int64_t elements, double* accumulators) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto square_added = [](auto sum, auto x) HWY_ATTR { return hn::MulAdd(x, x, sum); };
  for (std::int64_t first = 0; first < kAccumulators; first += 4 * lanes) {
    auto sum0 = hn::Load(d, accumulators + first);
    auto sum1 = hn::Load(d, accumulators + first + lanes);
    auto sum2 = hn::Load(d, accumulators + first + 2 * lanes);
    auto sum3 = hn::Load(d, accumulators + first + 3 * lanes);
    for (std::int64_t i = first; i < elements; i += kAccumulators) {
      sum0 = square_added(sum0, load(values + i));
      sum1 = square_added(sum1, load(values + i + lanes));
      sum2 = square_added(sum2, load(values + i + 2 * lanes));
      sum3 = square_added(sum3, load(values + i + 3 * lanes));
    }
    hn::Store(sum0, d, accumulators + first);
    hn::Store(sum1, d, accumulators + first + lanes);
    hn::Store(sum2, d, accumulators + first + 2 * lanes);
    hn::Store(sum3, d, accumulators + first + 3 * lanes);
  }
}

template <class T>
double block_sum(const T* values, std::int64_t elements) {
  HWY_ALIGN double accumulators[kAccumulators] = {};
  const std::int64_t whole = elements / kAccumulators * kAccumulators;
  for (std::int64_t first = 0; first < whole; first += kTile) {
    add_squares(values + first, std::min(kTile, whole - first), accumulators);
  }
  if (whole < elements) {
    T rest[kAccumulators] = {};
    std::memcpy(rest, values + whole, static_cast<std::size_t>(elements - whole) * sizeof(T));
    add_squares(rest, kAccumulators, accumulators);
  }
  for (std::int64_t width = kAccumulators / 2; width > 0; width /= 2) {
    for (std::int64_t i = 0; i < width; ++i) accumulators[i] += accumulators[i + width];
  }
  return accumulators[0];
}

double sum_of_block(const void* values, DType dtype, std::int64_t first, std::int64_t elements) {
  return with_storage_type(dtype, [&]<typename T>(T) HWY_ATTR {
    return block_sum(static_cast<const T*>(values) + first, elements);
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(sum_of_block);

/// Elements of one partial sum.
constexpr std::int64_t kBlock = 64 * 1024;

}  // namespace

double sum_of_squares(const void* values, DType dtype, std::int64_t elements) {
  const std::int64_t blocks = (elements + kBlock - 1) / kBlock;
  return sum_of(blocks, [&](std::int64_t block) {
    const std::int64_t first = block * kBlock;
    return HWY_DYNAMIC_DISPATCH(sum_of_block)(values, dtype, first, std::min(kBlock, elements - first));
  });
}

float clip_factor(double norm, double clip_norm) {
  if (clip_norm == 0) return 1;
  const double factor = clip_norm / (norm + 1e-6);
  return factor > 1 ? 1.0F : static_cast<float>(factor);
}

}  // namespace strata
#endif
