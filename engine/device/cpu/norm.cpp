// LayerNorm and RMSNorm, forward and backward, and sums over rows. A row is handled by one thread. Sums over
// rows are formed over fixed blocks of rows and combined in order, so they do not depend on the number of
// threads.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/norm.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"
#include "engine/device/norm_calls.h"
#include "engine/device/product_calls.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

/// What columns of a normalised row are multiplied by.
template <typename T>
struct Factors {
  const T* weight;
  bool unit_offset;

  template <typename Access>
  HWY_INLINE Float load(Access access, std::int64_t column) const {
    const Float value = access.load(weight + column);
    return unit_offset ? hn::Add(value, broadcast(1.0F)) : value;
  }
};

/// Loads (and adds, rounds and stores) one row into `values`, and returns its sum.
template <typename T>
HWY_INLINE float gather_row(const NormForward& norm, std::int64_t row, float* values) {
  const T* input = norm.input.row<T>(row);
  const T* addend = norm.addend ? norm.addend.row<T>(row) : nullptr;
  T* stored = norm.addend ? norm.sum.row<T>(row) : nullptr;
  Float total = hn::Zero(FloatTag());
  for_vectors(norm.input.columns, [&](auto access, std::int64_t i) HWY_ATTR {
    Float value = access.load(input + i);
    if (addend != nullptr) {
      value = rounded(hn::Add(value, access.load(addend + i)), addend);
      access.store(value, stored + i);
    }
    access.store(value, values + i);
    total = hn::Add(total, value);
  });
  return sum(total);
}

HWY_INLINE float squares(const float* values, std::int64_t count, float center) {
  Float total = hn::Zero(FloatTag());
  for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
    const Float difference = access.or_else(hn::Sub(access.load(values + i), broadcast(center)), 0.0F);
    total = hn::MulAdd(difference, difference, total);
  });
  return sum(total);
}

template <typename T>
HWY_INLINE void norm_rows(const NormForward& norm, std::int64_t begin, std::int64_t end, float* values) {
  const std::int64_t columns = norm.input.columns;
  const bool centered = norm.kind == NormKind::layer_norm;
  const Factors<T> factors{norm.weight.row<T>(0), norm.unit_offset};
  const T* bias = norm.bias ? norm.bias.row<T>(0) : nullptr;
  for (std::int64_t row = begin; row < end; ++row) {
    const float total = gather_row<T>(norm, row, values);
    const float mean = centered ? total / static_cast<float>(columns) : 0.0F;
    float& reciprocal = norm.reciprocal_deviation.row<float>(0)[row];
    if (!norm.given_deviation) {
      const float variance = squares(values, columns, mean) / static_cast<float>(columns);
      reciprocal = 1.0F / std::sqrt(variance + norm.epsilon);
    }
    if (centered) norm.mean.row<float>(0)[row] = mean;
    T* out = norm.out.row<T>(row);
    for_vectors(columns, [&](auto access, std::int64_t i) HWY_ATTR {
      const Float normalised =
          hn::Mul(hn::Sub(access.load(values + i), broadcast(mean)), broadcast(reciprocal));
      const Float shift = bias != nullptr ? access.load(bias + i) : hn::Zero(FloatTag());
      access.store(hn::MulAdd(normalised, factors.load(access, i), shift), out + i);
    });
  }
}

void norm_forward(const NormForward& norm, std::int64_t begin, std::int64_t end, float* values) {
  with_storage_type(norm.input.dtype,
                    [&]<typename T>(T) HWY_ATTR { norm_rows<T>(norm, begin, end, values); });
}

/// Sums of one row that its gradient needs: of g and of g·x̂, for g = out_gradient · factor.
struct RowSums {
  float gradient;
  float projected;
};

/// Also adds the row's part of the weight's and the bias's gradient.
template <typename T>
HWY_INLINE RowSums sum_row(const NormBackward& norm, std::int64_t row, float mean, float reciprocal,
                           float* weight_sums, float* bias_sums) {
  const T* input = norm.input.row<T>(row);
  const T* gradient = norm.out_gradient.row<T>(row);
  const Factors<T> factors{norm.weight.row<T>(0), norm.unit_offset};
  Float total = hn::Zero(FloatTag());
  Float projected = hn::Zero(FloatTag());
  for_vectors(norm.input.columns, [&](auto access, std::int64_t i) HWY_ATTR {
    const Float out_gradient = access.load(gradient + i);
    const Float normalised = hn::Mul(hn::Sub(access.load(input + i), broadcast(mean)), broadcast(reciprocal));
    const Float scaled = hn::Mul(out_gradient, factors.load(access, i));
    total = hn::Add(total, scaled);
    projected = hn::MulAdd(scaled, normalised, projected);
    if (weight_sums != nullptr)
      access.store(hn::MulAdd(out_gradient, normalised, access.load(weight_sums + i)), weight_sums + i);
    if (bias_sums != nullptr) access.store(hn::Add(access.load(bias_sums + i), out_gradient), bias_sums + i);
  });
  return {sum(total), sum(projected)};
}

template <typename T>
HWY_INLINE void norm_backward_rows(const NormBackward& norm, std::int64_t begin, std::int64_t end,
                                   float* weight_sums, float* bias_sums) {
  const std::int64_t columns = norm.input.columns;
  const bool centered = norm.kind == NormKind::layer_norm;
  const Factors<T> factors{norm.weight.row<T>(0), norm.unit_offset};
  if (weight_sums != nullptr) std::fill_n(weight_sums, columns, 0.0F);
  if (bias_sums != nullptr) std::fill_n(bias_sums, columns, 0.0F);
  for (std::int64_t row = begin; row < end; ++row) {
    const float mean = centered ? norm.mean.row<float>(0)[row] : 0.0F;
    const float reciprocal = norm.reciprocal_deviation.row<float>(0)[row];
    const RowSums sums = sum_row<T>(norm, row, mean, reciprocal, weight_sums, bias_sums);
    // dx = r·(g - mean(g) - x̂·mean(g·x̂)); RMSNorm has no mean(g).
    const float offset = centered ? sums.gradient / static_cast<float>(columns) : 0.0F;
    const float projection = norm.projections ? norm.projections.row<float>(0)[row] * reciprocal /
                                                    static_cast<float>(norm.whole_columns)
                                              : sums.projected / static_cast<float>(columns);
    const T* input = norm.input.row<T>(row);
    const T* gradient = norm.out_gradient.row<T>(row);
    const T* addend = norm.addend ? norm.addend.row<T>(row) : nullptr;
    T* to = norm.input_gradient.row<T>(row);
    for_vectors(columns, [&](auto access, std::int64_t i) HWY_ATTR {
      const Float normalised =
          hn::Mul(hn::Sub(access.load(input + i), broadcast(mean)), broadcast(reciprocal));
      const Float scaled = hn::MulSub(access.load(gradient + i), factors.load(access, i), broadcast(offset));
      const Float centre = hn::NegMulAdd(normalised, broadcast(projection), scaled);
      const Float joined = addend != nullptr ? access.load(addend + i) : hn::Zero(FloatTag());
      access.store(hn::MulAdd(centre, broadcast(reciprocal), joined), to + i);
    });
  }
}

void norm_backward(const NormBackward& norm, std::int64_t begin, std::int64_t end, float* weight_sums,
                   float* bias_sums) {
  with_storage_type(norm.input.dtype, [&]<typename T>(T) HWY_ATTR {
    norm_backward_rows<T>(norm, begin, end, weight_sums, bias_sums);
  });
}

template <typename T, typename Weight>
HWY_INLINE void dot_rows_of(const RowDots& call, std::int64_t begin, std::int64_t end) {
  const Factors<Weight> factors{call.weight ? call.weight.row<Weight>(0) : nullptr, call.unit_offset};
  for (std::int64_t row = begin; row < end; ++row) {
    const T* a = call.a.row<T>(row);
    const T* b = call.b.row<T>(row);
    Float total = hn::Zero(FloatTag());
    for_vectors(call.a.columns, [&](auto access, std::int64_t i) HWY_ATTR {
      Float value = access.load(b + i);
      if (factors.weight != nullptr) value = hn::Mul(value, factors.load(access, i));
      total = hn::MulAdd(access.load(a + i), value, total);
    });
    call.out.row<float>(0)[row] = sum(total);
  }
}

void dot_rows(const RowDots& call, std::int64_t begin, std::int64_t end) {
  const bool is_alike = !call.weight || call.weight.dtype == call.a.dtype;
  with_storage_type(call.a.dtype, [&]<typename T>(T) HWY_ATTR {
    is_alike ? dot_rows_of<T, T>(call, begin, end) : dot_rows_of<T, float>(call, begin, end);
  });
}

/// to[columns] += from row 0, 1, … in order.
template <typename T>
HWY_INLINE void add_rows_of(const Matrix& from, float* to) {
  for (std::int64_t row = 0; row < from.rows; ++row) {
    const T* values = from.row<T>(row);
    for_vectors(from.columns, [&](auto access, std::int64_t i) HWY_ATTR {
      access.store(hn::Add(access.load(to + i), access.load(values + i)), to + i);
    });
  }
}

void add_rows(const Matrix& from, float* to) {
  with_storage_type(from.dtype, [&]<typename T>(T) HWY_ATTR { add_rows_of<T>(from, to); });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(norm_forward);
HWY_EXPORT(norm_backward);
HWY_EXPORT(dot_rows);
HWY_EXPORT(add_rows);

/// Sums over rows: at most this many partial ones, of blocks of at least kSumRows rows.
constexpr std::int64_t kPartialSums = 64;
constexpr std::int64_t kSumRows = 16;
/// Columns that one task combines.
constexpr std::int64_t kCombineColumns = 512;

std::int64_t rows_per_sum(std::int64_t rows) {
  return std::max(kSumRows, (rows + kPartialSums - 1) / kPartialSums);
}

std::int64_t sums_of(std::int64_t rows) {
  const std::int64_t block = rows_per_sum(rows);
  return (rows + block - 1) / block;
}

/// gradient[1, columns] += the rows of `partial`, in order.
void combine(CpuContext& context, const Matrix& partial, const Matrix& gradient) {
  context.pool.for_ranges(partial.columns, kCombineColumns, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(add_rows)(partial.column_slice(begin, end - begin), gradient.row<float>(0) + begin);
  });
}

Bytes partial_sums_bytes(const Matrix& x) {
  return sums_of(x.rows) * x.columns * size_of(DType::fp32);
}

}  // namespace

ScratchBytes scratch_on_cpu(const NormForward& norm, int /*threads*/) {
  return {.per_thread = norm.input.columns * size_of(DType::fp32)};
}

void run_on_cpu(CpuContext& context, const NormForward& norm) {
  const std::int64_t columns = norm.input.columns;
  context.scratch.reserve(scratch_on_cpu(norm, context.pool.threads()));
  context.pool.for_ranges(norm.input.rows, rows_per_task(columns),
                          [&](std::int64_t begin, std::int64_t end, int slot) {
                            auto* values = reinterpret_cast<float*>(context.scratch.slot(slot));
                            HWY_DYNAMIC_DISPATCH(norm_forward)(norm, begin, end, values);
                          });
}

ScratchBytes scratch_on_cpu(const NormBackward& norm, int /*threads*/) {
  return {.shared = 2 * partial_sums_bytes(norm.input)};
}

void run_on_cpu(CpuContext& context, const NormBackward& norm) {
  const std::int64_t rows = norm.input.rows;
  const std::int64_t columns = norm.input.columns;
  const std::int64_t block = rows_per_sum(rows);
  const std::int64_t blocks = sums_of(rows);
  context.scratch.reserve(scratch_on_cpu(norm, context.pool.threads()));
  auto* area = reinterpret_cast<float*>(context.scratch.shared());
  const Matrix weights(area, DType::fp32, blocks, columns);
  const Matrix biases(area + weights.elements(), DType::fp32, blocks, columns);
  context.pool.for_each(blocks, [&](std::int64_t i, int) {
    float* weight_sums = norm.weight_gradient ? weights.row<float>(i) : nullptr;
    float* bias_sums = norm.bias_gradient ? biases.row<float>(i) : nullptr;
    HWY_DYNAMIC_DISPATCH(norm_backward)
    (norm, i * block, std::min(rows, (i + 1) * block), weight_sums, bias_sums);
  });
  if (norm.weight_gradient) combine(context, weights, norm.weight_gradient);
  if (norm.bias_gradient) combine(context, biases, norm.bias_gradient);
}

void run_on_cpu(CpuContext& context, const RowDots& call) {
  context.pool.for_ranges(call.a.rows, rows_per_task(call.a.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(dot_rows)(call, begin, end);
                          });
}

void run_on_cpu(CpuContext&, const RowDeviation& call) {
  const float* squares = call.squares.row<float>(0);
  float* deviation = call.deviation.row<float>(0);
  for (std::int64_t row = 0; row < call.squares.columns; ++row)
    deviation[row] = 1.0F / std::sqrt(squares[row] / static_cast<float>(call.columns) + call.epsilon);
}

ScratchBytes scratch_on_cpu(const ColumnSum& call, int /*threads*/) {
  return {.shared = partial_sums_bytes(call.x)};
}

void run_on_cpu(CpuContext& context, const ColumnSum& call) {
  const Matrix& x = call.x;
  assert(call.gradient.dtype == DType::fp32 && call.gradient.columns == x.columns);
  const std::int64_t block = rows_per_sum(x.rows);
  const std::int64_t blocks = sums_of(x.rows);
  context.scratch.reserve(scratch_on_cpu(call, context.pool.threads()));
  const Matrix partial(context.scratch.shared(), DType::fp32, blocks, x.columns);
  context.pool.for_each(blocks, [&](std::int64_t i, int) {
    std::fill_n(partial.row<float>(i), x.columns, 0.0F);
    HWY_DYNAMIC_DISPATCH(add_rows)
    (x.row_slice(i * block, std::min(block, x.rows - i * block)), partial.row<float>(i));
  });
  combine(context, partial, call.gradient);
}

}  // namespace strata
#endif
