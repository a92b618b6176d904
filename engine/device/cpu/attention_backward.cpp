// Backward of causal attention (Dao et al. 2022): probabilities are recomputed from log_sum_exp. A task is
// one sequence and one key/value head with all query heads that share it, so key and value gradients have one
// owner and a fixed order of summation.
//
// With S = Q·Kᵀ, P = exp(scale·S - log_sum_exp), dP = dO·Vᵀ, D = rowsum(dO ∘ O), dS = scale · P ∘ (dP - D):
//   dVᵀ += dOᵀ·P,  dKᵀ += Qᵀ·dS,  dQ += dS·K.
// With a soft cap c and t = tanh(scale·S / c), P = exp(c·t - log_sum_exp), and dS has another factor 1 - t².
// Transposed sums let P and dS be right operands, whose packed form costs nothing extra to write.
#include <cassert>

#include "base/storage_type.h"
#include "engine/device/cpu/attention.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/finish.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/attention_backward.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/attention_calls.h"
#include "engine/device/cpu/vector-inl.h"

#ifndef STRATA_DEVICE_CPU_SCORE_ROWS
#define STRATA_DEVICE_CPU_SCORE_ROWS
namespace strata {
/// Two rows of scores against a chunk of keys, on their way to probabilities and score gradients.
struct ScoreRows {
  const float* scores;             ///< S, two rows
  const float* probability_grads;  ///< dP, two rows
  std::int64_t width;              ///< elements of a row, and from one to the next
  std::int64_t first[2], last[2];  ///< visible columns of each row; a row that does not exist sees none
  float log_sum_exp[2];
  float projection[2];            ///< D
  float scale, soft_cap;          ///< as in AttentionShape
  std::byte* probability_panels;  ///< both rows' place in the first panel
  std::byte* gradient_panels;
  Bytes panel_stride;
  std::byte* gradient_rows;  ///< dS, two rows
};
}  // namespace strata
#endif

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

/// Two rows of one column block: into a panel, and, if `rows` is given, also as rows.
HWY_INLINE void store_pair(const Float* values, std::int64_t column, float* panel, float* rows,
                           std::int64_t stride) {
  store(values[0], panel + column);
  store(values[1], panel + kPanelColumns + column);
  if (rows == nullptr) return;
  store(values[0], rows);
  store(values[1], rows + stride);
}
HWY_INLINE void store_pair(const Float* values, std::int64_t column, bfloat16* panel, bfloat16* rows,
                           std::int64_t stride) {
  const auto first = nearest_bits(values[0]);
  const auto second = nearest_bits(values[1]);
  const auto pairs = hn::Or(first, hn::ShiftLeft<16>(second));
  hn::StoreU(pairs, WordTag(), reinterpret_cast<std::uint32_t*>(panel) + column);
  if (rows == nullptr) return;
  store_bits(first, rows);
  store_bits(second, rows + stride);
}

template <typename T, bool has_cap>
HWY_INLINE void score_gradient_rows(const ScoreRows& rows) {
  const FloatTag d;
  const Float scale = broadcast(rows.scale);
  for (std::int64_t column = 0; column < rows.width; column += lanes()) {
    Float p[2];
    Float gradient[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const Float score = hn::LoadU(d, rows.scores + i * rows.width + column);
      const Float log_sum_exp = broadcast(rows.log_sum_exp[i]);
      Float slope = scale;
      if constexpr (has_cap) {
        const Float tangent = SoftCap{rows.soft_cap, rows.scale}.tangent(score);
        p[i] = exponential(hn::MulSub(tangent, broadcast(rows.soft_cap), log_sum_exp));
        slope = hn::Mul(scale, SoftCap::slope_at(tangent));
      } else {
        p[i] = exponential(hn::MulSub(score, scale, log_sum_exp));
      }
      const Float difference = hn::Sub(hn::LoadU(d, rows.probability_grads + i * rows.width + column),
                                       broadcast(rows.projection[i]));
      gradient[i] = hn::Mul(hn::Mul(p[i], slope), difference);
      if (column < rows.first[i] || column + lanes() > rows.last[i]) {
        const auto index = hn::Iota(d, static_cast<float>(column));
        const auto seen = hn::And(hn::Ge(index, broadcast(static_cast<float>(rows.first[i]))),
                                  hn::Lt(index, broadcast(static_cast<float>(rows.last[i]))));
        p[i] = hn::IfThenElseZero(seen, p[i]);
        gradient[i] = hn::IfThenElseZero(seen, gradient[i]);
      }
    }
    const Bytes panel = column / kPanelColumns * rows.panel_stride;
    const std::int64_t place = column % kPanelColumns;
    store_pair(p, place, reinterpret_cast<T*>(rows.probability_panels + panel), static_cast<T*>(nullptr), 0);
    store_pair(gradient, place, reinterpret_cast<T*>(rows.gradient_panels + panel),
               reinterpret_cast<T*>(rows.gradient_rows) + column, rows.width);
  }
}

void score_gradients(const ScoreRows& rows, DType packed) {
  const auto run = [&]<typename T>(T) HWY_ATTR {
    if (rows.soft_cap > 0) {
      score_gradient_rows<T, true>(rows);
    } else {
      score_gradient_rows<T, false>(rows);
    }
  };
  if (packed == DType::bf16) {
    run(bfloat16());
  } else {
    run(float());
  }
}

template <typename T>
HWY_INLINE float dot_of(const T* a, const T* b, std::int64_t count) {
  Float total = hn::Zero(FloatTag());
  for_vectors(count, [&](auto access, std::int64_t i)
                         HWY_ATTR { total = hn::MulAdd(access.load(a + i), access.load(b + i), total); });
  return sum(total);
}

float dot(const void* a, const void* b, std::int64_t count, DType dtype) {
  return with_storage_type(dtype, [&]<typename T>(T) HWY_ATTR {
    return dot_of(static_cast<const T*>(a), static_cast<const T*>(b), count);
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(score_gradients);
HWY_EXPORT(dot);

/// Keys that meet kQueryRows queries at a time. A multiple of kPanelColumns.
constexpr std::int64_t kChunkKeys = 256;
constexpr std::int64_t kChunkPanels = kChunkKeys / kPanelColumns;

struct BackwardScratch {
  /// `dtype` is the packed one.
  BackwardScratch(std::byte* base, const AttentionShape& shape, DType dtype) {
    const std::int64_t d = shape.head_dimension;
    const std::int64_t key_panel_count = panel_count(shape.sequence);
    row_stride = padded_depth(dtype, d);
    out_stride = panel_count(d) * kPanelColumns;
    query_panel = panel_bytes(dtype, kQueryRows);
    Pieces pieces(base);
    key_panels = pieces.take<std::byte>(key_panel_count * panel_bytes(dtype, d));
    value_panels = pieces.take<std::byte>(key_panel_count * panel_bytes(dtype, d));
    key_depth_panels = pieces.take<std::byte>(panel_count(d) * panel_bytes(dtype, shape.sequence));
    key_sums = pieces.take<float>(key_panel_count * d * kPanelColumns);
    value_sums = pieces.take<float>(key_panel_count * d * kPanelColumns);
    query_rows = pieces.take<std::byte>(kQueryRows * row_stride * size_of(dtype));
    gradient_rows = pieces.take<std::byte>(kQueryRows * row_stride * size_of(dtype));
    query_columns = pieces.take<std::byte>(d * kQueryRows * size_of(dtype));
    gradient_columns = pieces.take<std::byte>(d * kQueryRows * size_of(dtype));
    query_sums = pieces.take<float>(kQueryRows * out_stride);
    scores = pieces.take<float>(kQueryRows * kChunkKeys);
    probability_grads = pieces.take<float>(kQueryRows * kChunkKeys);
    probability_panels = pieces.take<std::byte>(kChunkPanels * query_panel);
    score_gradient_panels = pieces.take<std::byte>(kChunkPanels * query_panel);
    score_gradient_rows = pieces.take<std::byte>(kQueryRows * kChunkKeys * size_of(dtype));
    transposed = pieces.take<float>(kPanelColumns * out_stride);
    bytes = pieces.used();
  }

  std::byte *key_panels, *value_panels, *key_depth_panels;
  float *key_sums, *value_sums;  ///< dKᵀ, dVᵀ: [key panel][head dimension][64]
  std::byte *query_rows, *gradient_rows, *query_columns, *gradient_columns;
  float *query_sums, *scores, *probability_grads;
  std::byte *probability_panels, *score_gradient_panels, *score_gradient_rows;
  float* transposed;
  std::int64_t row_stride, out_stride;
  Bytes query_panel;  ///< bytes of a panel whose depth are the queries of a block
  Bytes bytes;
};

class BackwardTask {
 public:
  BackwardTask(const AttentionBackward& call, const BackwardScratch& scratch, std::int64_t batch,
               std::int64_t kv_head)
      : call_(call),
        shape_(call.shape),
        places_(places_of(call.places, shape_, batch)),
        scratch_(scratch),
        dtype_(packed_dtype(call.query.dtype)),
        block_product_(block_product_for(dtype_)),
        batch_(batch),
        kv_head_(kv_head) {}

  void run() {
    const Matrix key = head_of(call_.key, shape_, batch_, kv_head_);
    pack_row_panels(key, scratch_.key_panels);
    pack_column_panels(key, scratch_.key_depth_panels);
    pack_row_panels(head_of(call_.value, shape_, batch_, kv_head_), scratch_.value_panels);
    const std::int64_t sums = panel_count(shape_.sequence) * shape_.head_dimension * kPanelColumns;
    std::fill_n(scratch_.key_sums, sums, 0.0F);
    std::fill_n(scratch_.value_sums, sums, 0.0F);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t head = kv_head_ * group; head < (kv_head_ + 1) * group; ++head) {
      for (std::int64_t row = 0; row < shape_.sequence; row += kQueryRows) {
        run_queries(head, row, std::min(kQueryRows, shape_.sequence - row));
      }
    }
    write_transposed(scratch_.key_sums, head_of(call_.key_gradient, shape_, batch_, kv_head_));
    write_transposed(scratch_.value_sums, head_of(call_.value_gradient, shape_, batch_, kv_head_));
  }

 private:
  void run_queries(std::int64_t head, std::int64_t row, std::int64_t rows) {
    const Matrix query = head_of(call_.query, shape_, batch_, head).row_slice(row, rows);
    const Matrix gradient = head_of(call_.out_gradient, shape_, batch_, head).row_slice(row, rows);
    const Matrix out = head_of(call_.out, shape_, batch_, head).row_slice(row, rows);
    pack_rows(query, scratch_.query_rows, scratch_.row_stride);
    pack_rows(gradient, scratch_.gradient_rows, scratch_.row_stride);
    pack_transposed(query, scratch_.query_columns, kQueryRows);
    pack_transposed(gradient, scratch_.gradient_columns, kQueryRows);
    const float* log_sum_exp = call_.log_sum_exp.row<float>(batch_ * shape_.heads + head) + row;
    for (std::int64_t i = 0; i < rows; ++i) {
      log_sum_exp_[i] = log_sum_exp[i];
      projection_[i] = HWY_DYNAMIC_DISPATCH(dot)(gradient.row_slice(i, 1).data, out.row_slice(i, 1).data,
                                                 shape_.head_dimension, gradient.dtype);
    }
    const std::int64_t first = visible_keys(shape_, places_, row).first / kPanelColumns * kPanelColumns;
    const std::int64_t last = visible_keys(shape_, places_, row + rows - 1).last;
    std::fill_n(scratch_.query_sums, rows * scratch_.out_stride, 0.0F);
    if (call_.query_gradient_before) {
      const Matrix before = head_of(call_.query_gradient_before, shape_, batch_, head).row_slice(row, rows);
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(before.row<float>(i), before.columns, scratch_.query_sums + i * scratch_.out_stride);
    }
    for (std::int64_t key = first; key < last; key += kChunkKeys) {
      meet(row, rows, key, std::min(kChunkKeys, last - key));
    }
    finish_block({scratch_.query_sums, DType::fp32, rows, shape_.head_dimension, scratch_.out_stride},
                 Matrix(), false, head_of(call_.query_gradient, shape_, batch_, head).row_slice(row, rows));
  }

  /// Queries [row, row + rows) and keys [key, key + keys).
  void meet(std::int64_t row, std::int64_t rows, std::int64_t key, std::int64_t keys) {
    const std::int64_t panels = panel_count(keys);
    const std::int64_t first_panel = key / kPanelColumns;
    score(rows, first_panel, panels);
    for (std::int64_t i = 0; i < rows; i += 2) differentiate(row, rows, i, key, panels * kPanelColumns);

    const std::int64_t d = shape_.head_dimension;
    BlockProduct sums{
        .a_stride = kQueryRows, .rows = d, .depth = rows, .out_stride = kPanelColumns, .accumulate = true};
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::int64_t place = (first_panel + panel) * d * kPanelColumns;
      sums.a = scratch_.gradient_columns;
      sums.panel = scratch_.probability_panels + panel * scratch_.query_panel;
      sums.out = scratch_.value_sums + place;
      block_product_(sums);
      sums.a = scratch_.query_columns;
      sums.panel = scratch_.score_gradient_panels + panel * scratch_.query_panel;
      sums.out = scratch_.key_sums + place;
      block_product_(sums);
    }
    BlockProduct query{
        .a = scratch_.score_gradient_rows, .a_stride = panels * kPanelColumns, .rows = rows, .depth = keys};
    query.out_stride = scratch_.out_stride;
    query.accumulate = true;
    for (std::int64_t j = 0; j < panel_count(d); ++j) {
      query.panel =
          scratch_.key_depth_panels + j * panel_bytes(dtype_, shape_.sequence) + panel_bytes(dtype_, key);
      query.out = scratch_.query_sums + j * kPanelColumns;
      block_product_(query);
    }
  }

  /// S and dP of a block of queries and `panels` panels of keys.
  void score(std::int64_t rows, std::int64_t first_panel, std::int64_t panels) {
    BlockProduct block{.a_stride = scratch_.row_stride,
                       .rows = rows,
                       .depth = shape_.head_dimension,
                       .out_stride = panels * kPanelColumns};
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const Bytes place = (first_panel + panel) * panel_bytes(dtype_, shape_.head_dimension);
      block.a = scratch_.query_rows;
      block.panel = scratch_.key_panels + place;
      block.out = scratch_.scores + panel * kPanelColumns;
      block_product_(block);
      block.a = scratch_.gradient_rows;
      block.panel = scratch_.value_panels + place;
      block.out = scratch_.probability_grads + panel * kPanelColumns;
      block_product_(block);
    }
  }

  /// P and dS of queries i and i + 1 of the block.
  void differentiate(std::int64_t row, std::int64_t rows, std::int64_t i, std::int64_t key,
                     std::int64_t width) {
    ScoreRows pair{};
    pair.scores = scratch_.scores + i * width;
    pair.probability_grads = scratch_.probability_grads + i * width;
    pair.width = width;
    pair.scale = shape_.scale;
    pair.soft_cap = shape_.soft_cap;
    for (std::int64_t j = 0; j < 2 && i + j < rows; ++j) {
      const VisibleKeys seen = visible_keys(shape_, places_, row + i + j);
      pair.first[j] = std::max(seen.first, key) - key;
      pair.last[j] = std::min(seen.last, key + width) - key;
      pair.log_sum_exp[j] = log_sum_exp_[i + j];
      pair.projection[j] = projection_[i + j];
    }
    pair.probability_panels = scratch_.probability_panels + panel_bytes(dtype_, i);
    pair.gradient_panels = scratch_.score_gradient_panels + panel_bytes(dtype_, i);
    pair.panel_stride = scratch_.query_panel;
    pair.gradient_rows = scratch_.score_gradient_rows + i * width * size_of(dtype_);
    HWY_DYNAMIC_DISPATCH(score_gradients)(pair, dtype_);
  }

  void write_transposed(const float* sums, const Matrix& out) {
    const std::int64_t d = shape_.head_dimension;
    for (std::int64_t key = 0; key < out.rows; key += kPanelColumns) {
      const Matrix panel(const_cast<float*>(sums) + key * d, DType::fp32, d, kPanelColumns);
      pack_transposed(panel, scratch_.transposed, scratch_.out_stride);
      const std::int64_t rows = std::min(kPanelColumns, out.rows - key);
      finish_block({scratch_.transposed, DType::fp32, rows, d, scratch_.out_stride}, Matrix(), false,
                   out.row_slice(key, rows));
    }
  }

  const AttentionBackward& call_;
  const AttentionShape& shape_;
  Places places_;
  const BackwardScratch& scratch_;
  DType dtype_;  ///< of packed operands
  BlockProductFunction block_product_;
  std::int64_t batch_, kv_head_;
  float log_sum_exp_[kQueryRows];
  float projection_[kQueryRows];
};

}  // namespace

ScratchBytes scratch_on_cpu(const AttentionBackward& call, int /*threads*/) {
  return {.per_thread = BackwardScratch(nullptr, call.shape, packed_dtype(call.query.dtype)).bytes};
}

void run_on_cpu(CpuContext& context, const AttentionBackward& call) {
  const AttentionShape& shape = call.shape;
  assert(shape.heads % shape.kv_heads == 0 && call.query.rows == shape.batch * shape.sequence);
  const DType packed = packed_dtype(call.query.dtype);
  context.scratch.reserve(scratch_on_cpu(call, context.pool.threads()));
  context.pool.for_each(shape.batch * shape.kv_heads, [&](std::int64_t task, int slot) {
    const BackwardScratch scratch(context.scratch.slot(slot), shape, packed);
    BackwardTask(call, scratch, task / shape.kv_heads, task % shape.kv_heads).run();
  });
}

}  // namespace strata
#endif
