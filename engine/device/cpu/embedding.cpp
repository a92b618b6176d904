// Table look-up, and its gradient: rows are added in token order, each thread working on columns of its own,
// so that tokens that occur twice need no lock and sum in a fixed order.
#include <algorithm>
#include <cassert>

#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/embedding.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"
#include "engine/device/row_calls.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

/// A token's row of the table; null if the table lacks it.
template <typename T>
HWY_INLINE T* row_of(const Matrix& table, const FirstRow& first_row, std::int32_t token) {
  const std::int32_t row = token - first_row.value_or(0);
  return first_row && (row < 0 || row >= table.rows) ? nullptr : table.row<T>(row);
}

template <typename T>
HWY_INLINE void look_up_rows(const EmbeddingForward& call, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* from = row_of<T>(call.table, call.first_row, nth(call.tokens, row));
    const T* position =
        call.positions ? call.positions.row<T>(position_of(call.places, row, call.sequence)) : nullptr;
    T* to = call.out.row<T>(row);
    for_vectors(call.out.columns, [&](auto access, std::int64_t i) HWY_ATTR {
      Float value = from == nullptr ? hn::Zero(FloatTag()) : access.load(from + i);
      if (position != nullptr) value = hn::Add(value, access.load(position + i));
      access.store(value, to + i);
    });
  }
}

void look_up(const EmbeddingForward& call, std::int64_t begin, std::int64_t end) {
  with_storage_type(call.out.dtype, [&]<typename T>(T) HWY_ATTR { look_up_rows<T>(call, begin, end); });
}

template <typename T>
HWY_INLINE void add_row(const T* from, std::int64_t count, float* to) {
  for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
    access.store(hn::Add(access.load(to + i), access.load(from + i)), to + i);
  });
}

template <typename T>
HWY_INLINE void scatter_rows(const EmbeddingBackward& call) {
  const std::int64_t columns = call.out_gradient.columns;
  for (std::int64_t row = 0; row < call.out_gradient.rows; ++row) {
    const T* from = call.out_gradient.row<T>(row);
    const std::int32_t token = nth(call.tokens, row);
    if (call.table_gradient && token != call.padding_token) {
      float* to = row_of<float>(call.table_gradient, call.first_row, token);
      if (to != nullptr) add_row(from, columns, to);
    }
    if (call.positions_gradient)
      add_row(from, columns,
              call.positions_gradient.row<float>(position_of(call.places, row, call.sequence)));
  }
}

void scatter(const EmbeddingBackward& call) {
  with_storage_type(call.out_gradient.dtype, [&]<typename T>(T) HWY_ATTR { scatter_rows<T>(call); });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(look_up);
HWY_EXPORT(scatter);

namespace {
/// Columns of one task of the gradient: whole cache lines of every operand, and several tasks for a hidden
/// size of 768.
constexpr std::int64_t kScatterColumns = 64;
}  // namespace

void run_on_cpu(CpuContext& context, const EmbeddingForward& call) {
  assert(static_cast<std::int64_t>(call.tokens.size()) == call.out.rows);
  context.pool.for_ranges(call.out.rows, rows_per_task(call.out.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(look_up)(call, begin, end);
                          });
}

void run_on_cpu(CpuContext& context, const EmbeddingBackward& call) {
  assert(static_cast<std::int64_t>(call.tokens.size()) == call.out_gradient.rows);
  const std::int64_t columns = call.out_gradient.columns;
  const std::int64_t groups = (columns + kScatterColumns - 1) / kScatterColumns;
  context.pool.for_each(groups, [&](std::int64_t group, int) {
    const std::int64_t first = group * kScatterColumns;
    const std::int64_t count = std::min(kScatterColumns, columns - first);
    EmbeddingBackward part = call;
    for (Matrix* matrix : {&part.out_gradient, &part.table_gradient, &part.positions_gradient}) {
      if (*matrix) *matrix = matrix->column_slice(first, count);
    }
    HWY_DYNAMIC_DISPATCH(scatter)(part);
  });
}

}  // namespace strata
#endif
