// Attention of one token of each sequence to the keys of a cache, with a running softmax over chunks of keys.
// A task is one head of one sequence, so any split gives the same bits.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/cached_attention.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/attention_calls.h"
#include "engine/device/cpu/softmax-inl.h"

#ifndef STRATA_DEVICE_CPU_CACHED_HEAD
#define STRATA_DEVICE_CPU_CACHED_HEAD
namespace strata {
/// Keys that are scored before their values are summed.
constexpr std::int64_t kCachedKeys = 256;
/// One head of one sequence, and its working memory.
struct CachedHead {
  Matrix query, out;      ///< [1, head_dimension]
  Matrix key, value;      ///< [keys that the token sees, head_dimension]
  float scale, soft_cap;  ///< as in AttentionShape
  float* wide_query;      ///< [head_dimension]
  float* sums;            ///< [head_dimension]
  float* weights;         ///< [kCachedKeys]
};
}  // namespace strata
#endif

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

/// weights = scores of keys [first, first + count).
template <typename T>
HWY_INLINE void score_keys(const CachedHead& head, std::int64_t first, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T* key = head.key.row<const T>(first + i);
    Float product = broadcast(0.0F);
    for_vectors(head.key.columns, [&](auto access, std::int64_t d) HWY_ATTR {
      product = hn::MulAdd(access.load(head.wide_query + d), access.load(key + d), product);
    });
    head.weights[i] = sum(product) * head.scale;
  }
  if (head.soft_cap > 0) map(head.weights, head.weights, count, SoftCap{head.soft_cap});
}

/// sums = sums · decay + Σ weights · values of keys [first, first + count).
template <typename T>
HWY_INLINE void add_values(const CachedHead& head, std::int64_t first, std::int64_t count, float decay) {
  const std::int64_t step = lanes();
  std::int64_t column = 0;
  for (; column + kBatch * step <= head.value.columns; column += kBatch * step) {
    Float total[kBatch];
#pragma GCC unroll 4
    for (int j = 0; j < kBatch; ++j)
      total[j] = hn::Mul(load(head.sums + column + j * step), broadcast(decay));
    for (std::int64_t i = 0; i < count; ++i) {
      const T* value = head.value.row<const T>(first + i) + column;
      const Float weight = broadcast(head.weights[i]);
#pragma GCC unroll 4
      for (int j = 0; j < kBatch; ++j) total[j] = hn::MulAdd(weight, load(value + j * step), total[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < kBatch; ++j) store(total[j], head.sums + column + j * step);
  }
  for_vectors(head.value.columns - column, [&](auto access, std::int64_t k) HWY_ATTR {
    Float total = hn::Mul(access.load(head.sums + column + k), broadcast(decay));
    for (std::int64_t i = 0; i < count; ++i) {
      const T* value = head.value.row<const T>(first + i) + column + k;
      total = hn::MulAdd(broadcast(head.weights[i]), access.load(value), total);
    }
    access.store(total, head.sums + column + k);
  });
}

template <typename T>
HWY_INLINE void attend_head(const CachedHead& head) {
  const std::int64_t columns = head.query.columns;
  for_vectors(columns, [&](auto access, std::int64_t d) HWY_ATTR {
    access.store(access.load(head.query.row<const T>(0) + d), head.wide_query + d);
  });
  std::fill_n(head.sums, columns, 0.0F);
  float largest = -std::numeric_limits<float>::infinity(), total = 0;
  for (std::int64_t first = 0; first < head.key.rows; first += kCachedKeys) {
    const std::int64_t count = std::min(kCachedKeys, head.key.rows - first);
    score_keys<T>(head, first, count);
    const float previous = largest;
    largest = std::max(previous, row_maximum(head.weights, count));
    const float decay = first == 0 ? 0.0F : std::exp(previous - largest);
    total = total * decay + write_exponentials(head.weights, count, largest, head.weights);
    add_values<T>(head, first, count, decay);
  }
  const Float factor = broadcast(1.0F / total);
  for_vectors(columns, [&](auto access, std::int64_t d) HWY_ATTR {
    access.store(hn::Mul(access.load(head.sums + d), factor), head.out.row<T>(0) + d);
  });
}

void attend_cached(const CachedHead& head) {
  with_storage_type(head.query.dtype, [&]<typename T>(T) HWY_ATTR { attend_head<T>(head); });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(attend_cached);

struct CachedScratch {
  CachedScratch(std::byte* base, std::int64_t head_dimension) {
    Pieces pieces(base);
    wide_query = pieces.take<float>(head_dimension);
    sums = pieces.take<float>(head_dimension);
    weights = pieces.take<float>(kCachedKeys);
    bytes = pieces.used();
  }

  float *wide_query, *sums, *weights;
  Bytes bytes;
};

}  // namespace

ScratchBytes scratch_on_cpu(const CachedAttention& call, int /*threads*/) {
  return {.per_thread = CachedScratch(nullptr, call.shape.head_dimension).bytes};
}

void run_on_cpu(CpuContext& context, const CachedAttention& call) {
  const AttentionShape& shape = call.shape;
  assert(shape.heads % shape.kv_heads == 0 && call.query.rows == shape.batch &&
         call.key.rows == shape.batch * shape.sequence);
  context.scratch.reserve(scratch_on_cpu(call, context.pool.threads()));
  context.pool.for_each(shape.batch * shape.heads, [&](std::int64_t task, int slot) {
    const CachedScratch scratch(context.scratch.slot(slot), shape.head_dimension);
    const std::int64_t batch = task / shape.heads, head = task % shape.heads;
    const std::int64_t length = nth(call.lengths, batch);
    const std::int64_t keys = shape.window > 0 ? std::min(shape.window, length) : length;
    const std::int64_t first = batch * shape.sequence + length - keys;
    const std::int64_t kv_column = head / (shape.heads / shape.kv_heads) * shape.head_dimension;
    const auto of_head = [&](const Matrix& x) {
      return x.row_slice(batch, 1).column_slice(head * shape.head_dimension, shape.head_dimension);
    };
    const auto of_keys = [&](const Matrix& x) {
      return x.row_slice(first, keys).column_slice(kv_column, shape.head_dimension);
    };
    HWY_DYNAMIC_DISPATCH(attend_cached)
    ({.query = of_head(call.query),
      .out = of_head(call.out),
      .key = of_keys(call.key),
      .value = of_keys(call.value),
      .scale = shape.scale,
      .soft_cap = shape.soft_cap,
      .wide_query = scratch.wide_query,
      .sums = scratch.sums,
      .weights = scratch.weights});
  });
}

}  // namespace strata
#endif
