// Forward of causal attention with a running softmax (Milakov & Gimelshein 2018; Dao et al. 2022). A task is
// one head and up to kGroupRows queries; it walks over the keys in chunks, packs each once and lets all its
// queries meet it. Memory per thread does not depend on the sequence.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/device/cpu/attention.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/attention_forward.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/attention_calls.h"
#include "engine/device/cpu/vector-inl.h"

#ifndef STRATA_DEVICE_CPU_SOFTMAX_BLOCK
#define STRATA_DEVICE_CPU_SOFTMAX_BLOCK
namespace strata {
/// Scores of a block of queries against a chunk of keys, and the running state of each query.
struct SoftmaxBlock {
  float* scores;             ///< [rows, width], width a multiple of every vector; destroyed
  std::byte* probabilities;  ///< [rows, width], written: exp(scale·score - maximum), zero where the key is
                             ///< not visible; of the packed dtype
  std::int64_t rows, width;
  const VisibleKeys* visible;  ///< columns that each query sees
  float scale, soft_cap;       ///< as in AttentionShape
  float* maximum;              ///< running maximum of what scores count as
  float* total;                ///< running sum of the probabilities
  float* decay;                ///< written: the factor by which the query's earlier sums shrink
};
/// out[rows, columns] = sums / total of the row.
struct NormalisedRows {
  const float* sums;
  std::int64_t sums_stride;
  const float* total;
  Matrix out;
};
}  // namespace strata
#endif

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

HWY_INLINE void store_factor(Float value, float* to) {
  store(value, to);
}
HWY_INLINE void store_factor(Float value, bfloat16* to) {
  store_bits(nearest_bits(value), to);
}

/// Maximum over whole vectors [begin, end).
HWY_INLINE float row_maximum(const float* scores, std::int64_t begin, std::int64_t end) {
  const FloatTag d;
  const std::int64_t step = lanes();
  Float most[2] = {broadcast(-std::numeric_limits<float>::infinity()),
                   broadcast(-std::numeric_limits<float>::infinity())};
  std::int64_t i = begin;
  for (; i + 2 * step <= end; i += 2 * step) {
    most[0] = hn::Max(most[0], hn::LoadU(d, scores + i));
    most[1] = hn::Max(most[1], hn::LoadU(d, scores + i + step));
  }
  if (i < end) most[0] = hn::Max(most[0], hn::LoadU(d, scores + i));
  return maximum(hn::Max(most[0], most[1]));
}

/// Writes exp(scale·score - shift) over whole vectors [begin, end) and returns the sum. The product is
/// rounded by itself: then it is `shift` itself for the largest score, whatever its size.
template <typename T>
HWY_INLINE float write_exponentials(const float* scores, std::int64_t begin, std::int64_t end, float scale,
                                    float shift, T* to) {
  const FloatTag d;
  const std::int64_t step = lanes();
  Float sums[2] = {hn::Zero(d), hn::Zero(d)};
  std::int64_t i = begin;
  for (; i + 2 * step <= end; i += 2 * step) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const Float score = hn::LoadU(d, scores + i + j * step);
      const Float p = exponential(hn::Sub(hn::Mul(score, broadcast(scale)), broadcast(shift)));
      sums[j] = hn::Add(sums[j], p);
      store_factor(p, to + i + j * step);
    }
  }
  if (i < end) {
    const Float score = hn::LoadU(d, scores + i);
    const Float p = exponential(hn::Sub(hn::Mul(score, broadcast(scale)), broadcast(shift)));
    sums[0] = hn::Add(sums[0], p);
    store_factor(p, to + i);
  }
  return sum(hn::Add(sums[0], sums[1]));
}

template <typename T>
HWY_INLINE void softmax_rows(const SoftmaxBlock& block) {
  const std::int64_t step = lanes();
  for (std::int64_t row = 0; row < block.rows; ++row) {
    float* scores = block.scores + row * block.width;
    T* probabilities = reinterpret_cast<T*>(block.probabilities) + row * block.width;
    const auto [first, last] = block.visible[row];
    block.decay[row] = 1;
    if (first >= last) {
      std::fill_n(probabilities, block.width, T());
      continue;
    }
    const std::int64_t begin = first / step * step;
    const std::int64_t end = (last + step - 1) / step * step;
    float scale = block.scale;
    if (block.soft_cap > 0) {
      map(scores + begin, scores + begin, end - begin, SoftCap{block.soft_cap, scale});
      scale = 1;
    }
    std::fill(scores + begin, scores + first, -std::numeric_limits<float>::infinity());
    std::fill(scores + last, scores + end, -std::numeric_limits<float>::infinity());
    const float previous = block.maximum[row];
    const float most = std::max(previous, row_maximum(scores, begin, end) * scale);
    const float total = write_exponentials(scores, begin, end, scale, most, probabilities);
    std::fill(probabilities, probabilities + first, T());
    std::fill(probabilities + last, probabilities + block.width, T());
    block.maximum[row] = most;
    if (std::isinf(previous)) {  // nothing was summed yet
      block.total[row] = total;
      continue;
    }
    block.decay[row] = std::exp(previous - most);
    block.total[row] = block.total[row] * block.decay[row] + total;
  }
}

void softmax_block(const SoftmaxBlock& block, DType packed) {
  if (packed == DType::bf16) {
    softmax_rows<bfloat16>(block);
  } else {
    softmax_rows<float>(block);
  }
}

void scale_row(float* values, std::int64_t count, float factor) {
  for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
    access.store(hn::Mul(access.load(values + i), broadcast(factor)), values + i);
  });
}

template <typename T>
HWY_INLINE void write_normalised_rows(const NormalisedRows& rows) {
  for (std::int64_t row = 0; row < rows.out.rows; ++row) {
    const Float factor = broadcast(1.0F / rows.total[row]);
    const float* from = rows.sums + row * rows.sums_stride;
    T* to = rows.out.row<T>(row);
    for_vectors(rows.out.columns, [&](auto access, std::int64_t i) HWY_ATTR {
      access.store(hn::Mul(access.load(from + i), factor), to + i);
    });
  }
}

void write_normalised(const NormalisedRows& rows) {
  with_storage_type(rows.out.dtype, [&]<typename T>(T) HWY_ATTR { write_normalised_rows<T>(rows); });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(softmax_block);
HWY_EXPORT(scale_row);
HWY_EXPORT(write_normalised);

/// Queries of one task, which share the packing of the keys.
constexpr std::int64_t kGroupRows = 512;
/// Keys that are packed, and scored against kQueryRows queries, at a time. A multiple of kPanelColumns.
constexpr std::int64_t kChunkKeys = 512;

struct ForwardScratch {
  /// `dtype` is the packed one.
  ForwardScratch(std::byte* base, const AttentionShape& shape, DType dtype) {
    const std::int64_t panels = panel_count(shape.head_dimension);
    query_stride = padded_depth(dtype, shape.head_dimension);
    out_stride = panels * kPanelColumns;
    Pieces pieces(base);
    key_panels =
        pieces.take<std::byte>(kChunkKeys / kPanelColumns * panel_bytes(dtype, shape.head_dimension));
    value_panels = pieces.take<std::byte>(panels * panel_bytes(dtype, kChunkKeys));
    queries = pieces.take<std::byte>(kQueryRows * query_stride * size_of(dtype));
    scores = pieces.take<float>(kQueryRows * kChunkKeys);
    probabilities = pieces.take<std::byte>(kQueryRows * kChunkKeys * size_of(dtype));
    out = pieces.take<float>(kGroupRows * out_stride);
    maximum = pieces.take<float>(kGroupRows);
    total = pieces.take<float>(kGroupRows);
    bytes = pieces.used();
  }

  std::byte *key_panels, *value_panels, *queries, *probabilities;
  float *scores, *out, *maximum, *total;
  std::int64_t query_stride, out_stride;
  Bytes bytes;
};

/// One head's queries [begin, end) against all keys they see.
class ForwardTask {
 public:
  ForwardTask(const AttentionForward& call, const ForwardScratch& scratch, std::int64_t batch,
              std::int64_t head)
      : shape_(call.shape),
        places_(places_of(call.places, shape_, batch)),
        scratch_(scratch),
        dtype_(packed_dtype(call.query.dtype)),
        block_product_(block_product_for(dtype_)),
        query_(head_of(call.query, shape_, batch, head)),
        key_(head_of(call.key, shape_, batch, head / (shape_.heads / shape_.kv_heads))),
        value_(head_of(call.value, shape_, batch, head / (shape_.heads / shape_.kv_heads))),
        out_(head_of(call.out, shape_, batch, head)),
        log_sum_exp_(call.log_sum_exp.row<float>(batch * shape_.heads + head)) {
    if (!call.before) return;
    before_ = head_of(call.before, shape_, batch, head);
    log_sum_exp_before_ = call.log_sum_exp_before.row<float>(batch * shape_.heads + head);
  }

  void run(std::int64_t begin, std::int64_t end) {
    start(begin, end);
    const std::int64_t first_key = visible_keys(shape_, places_, begin).first / kChunkKeys * kChunkKeys;
    const std::int64_t end_key = visible_keys(shape_, places_, end - 1).last;
    for (std::int64_t key = first_key; key < end_key; key += kChunkKeys) {
      const std::int64_t keys = std::min(kChunkKeys, end_key - key);
      pack_row_panels(key_.row_slice(key, keys), scratch_.key_panels);
      pack_column_panels(value_.row_slice(key, keys), scratch_.value_panels);
      for (std::int64_t row = begin; row < end; row += kQueryRows) {
        meet(begin, row, std::min(kQueryRows, end - row), key, keys);
      }
    }
    finish(begin, end);
  }

 private:
  /// Results of other keys are sums that were divided by one: their total is 1 if log_sum_exp is the maximum.
  void start(std::int64_t begin, std::int64_t end) {
    std::fill_n(scratch_.out, (end - begin) * scratch_.out_stride, 0.0F);
    if (log_sum_exp_before_ == nullptr) {
      std::fill_n(scratch_.maximum, end - begin, -std::numeric_limits<float>::infinity());
      std::fill_n(scratch_.total, end - begin, 0.0F);
      return;
    }
    std::copy(log_sum_exp_before_ + begin, log_sum_exp_before_ + end, scratch_.maximum);
    std::fill_n(scratch_.total, end - begin, 1.0F);
    for (std::int64_t row = begin; row < end; ++row)
      std::copy_n(before_.row<float>(row), before_.columns,
                  scratch_.out + (row - begin) * scratch_.out_stride);
  }

  /// Queries [row, row + rows) meet the packed keys [key, key + keys).
  void meet(std::int64_t begin, std::int64_t row, std::int64_t rows, std::int64_t key, std::int64_t keys) {
    const std::int64_t first = std::max(visible_keys(shape_, places_, row).first, key);
    const std::int64_t last = std::min(visible_keys(shape_, places_, row + rows - 1).last, key + keys);
    if (first >= last) return;
    const std::int64_t first_panel = (first - key) / kPanelColumns;
    const std::int64_t last_panel = panel_count(last - key);
    const std::int64_t width = (last_panel - first_panel) * kPanelColumns;
    const std::int64_t start = key + first_panel * kPanelColumns;
    score(row, rows, first_panel, last_panel);
    absorb(begin, row, rows, start, last, width);
    BlockProduct block{.a = scratch_.probabilities, .a_stride = width, .rows = rows, .depth = last - start};
    block.out_stride = scratch_.out_stride;
    block.accumulate = true;
    for (std::int64_t j = 0; j < panel_count(shape_.head_dimension); ++j) {
      block.panel = scratch_.value_panels + j * panel_bytes(dtype_, keys) + panel_bytes(dtype_, start - key);
      block.out = scratch_.out + (row - begin) * scratch_.out_stride + j * kPanelColumns;
      block_product_(block);
    }
  }

  void score(std::int64_t row, std::int64_t rows, std::int64_t first_panel, std::int64_t last_panel) {
    pack_rows(query_.row_slice(row, rows), scratch_.queries, scratch_.query_stride);
    BlockProduct block{.a = scratch_.queries,
                       .a_stride = scratch_.query_stride,
                       .rows = rows,
                       .depth = shape_.head_dimension,
                       .out_stride = (last_panel - first_panel) * kPanelColumns};
    for (std::int64_t panel = first_panel; panel < last_panel; ++panel) {
      block.panel = scratch_.key_panels + panel * panel_bytes(dtype_, shape_.head_dimension);
      block.out = scratch_.scores + (panel - first_panel) * kPanelColumns;
      block_product_(block);
    }
  }

  /// Softmax over keys [start, end) of queries [row, row + rows).
  void absorb(std::int64_t begin, std::int64_t row, std::int64_t rows, std::int64_t start, std::int64_t end,
              std::int64_t width) {
    std::array<VisibleKeys, kQueryRows> visible;
    std::array<float, kQueryRows> decay;
    for (std::int64_t i = 0; i < rows; ++i) {
      const VisibleKeys keys = visible_keys(shape_, places_, row + i);
      nth(visible, i) = {std::max(keys.first, start) - start, std::min(keys.last, end) - start};
    }
    HWY_DYNAMIC_DISPATCH(softmax_block)
    ({.scores = scratch_.scores,
      .probabilities = scratch_.probabilities,
      .rows = rows,
      .width = width,
      .visible = visible.data(),
      .scale = shape_.scale,
      .soft_cap = shape_.soft_cap,
      .maximum = scratch_.maximum + (row - begin),
      .total = scratch_.total + (row - begin),
      .decay = decay.data()},
     dtype_);
    for (std::int64_t i = 0; i < rows; ++i) {
      const float factor = nth(decay, i);
      float* out = scratch_.out + (row - begin + i) * scratch_.out_stride;
      if (factor != 1.0F) HWY_DYNAMIC_DISPATCH(scale_row)(out, scratch_.out_stride, factor);
    }
  }

  void finish(std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      log_sum_exp_[row] = scratch_.maximum[row - begin] + std::log(scratch_.total[row - begin]);
    }
    HWY_DYNAMIC_DISPATCH(write_normalised)
    ({.sums = scratch_.out,
      .sums_stride = scratch_.out_stride,
      .total = scratch_.total,
      .out = out_.row_slice(begin, end - begin)});
  }

  const AttentionShape& shape_;
  Places places_;
  const ForwardScratch& scratch_;
  DType dtype_;  ///< of packed operands
  BlockProductFunction block_product_;
  Matrix query_, key_, value_, out_, before_ = {};
  float* log_sum_exp_;
  const float* log_sum_exp_before_ = nullptr;
};

}  // namespace

ScratchBytes scratch_on_cpu(const AttentionForward& call, int /*threads*/) {
  return {.per_thread = ForwardScratch(nullptr, call.shape, packed_dtype(call.query.dtype)).bytes};
}

void run_on_cpu(CpuContext& context, const AttentionForward& call) {
  const AttentionShape& shape = call.shape;
  assert(shape.heads % shape.kv_heads == 0 && call.query.rows == shape.batch * shape.sequence);
  const DType packed = packed_dtype(call.query.dtype);
  context.scratch.reserve(scratch_on_cpu(call, context.pool.threads()));
  const std::int64_t groups = (shape.sequence + kGroupRows - 1) / kGroupRows;
  context.pool.for_each(shape.batch * shape.heads * groups, [&](std::int64_t task, int slot) {
    const ForwardScratch scratch(context.scratch.slot(slot), shape, packed);
    const std::int64_t sequence_head = task / groups;
    const std::int64_t begin = task % groups * kGroupRows;
    ForwardTask(call, scratch, sequence_head / shape.heads, sequence_head % shape.heads)
        .run(begin, std::min(begin + kGroupRows, shape.sequence));
  });
}

}  // namespace strata
#endif
