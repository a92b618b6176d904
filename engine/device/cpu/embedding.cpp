// Table look-up, and its gradient: rows are added in token order, each thread working on columns of its own,
// so that tokens that occur twice need no lock and sum in a fixed order.
#include <algorithm>
#include <cassert>

#include "engine/base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/embedding.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

template <typename T>
HWY_INLINE void look_up_rows(std::span<const std::int32_t> tokens, const Matrix& table,
                             const Matrix& positions, std::int64_t sequence, const Matrix& out,
                             std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* from = table.row<T>(tokens[static_cast<std::size_t>(row)]);
    const T* position = positions ? positions.row<T>(row % sequence) : nullptr;
    T* to = out.row<T>(row);
    for_vectors(out.columns, [&](auto access, std::int64_t i) HWY_ATTR {
      Float value = access.load(from + i);
      if (position != nullptr) value = hn::Add(value, access.load(position + i));
      access.store(value, to + i);
    });
  }
}

void look_up(std::span<const std::int32_t> tokens, const Matrix& table, const Matrix& positions,
             std::int64_t sequence, const Matrix& out, std::int64_t begin, std::int64_t end) {
  with_storage_type(out.dtype, [&]<typename T>(T) HWY_ATTR {
    look_up_rows<T>(tokens, table, positions, sequence, out, begin, end);
  });
}

template <typename T>
HWY_INLINE void add_row(const T* from, std::int64_t count, float* to) {
  for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
    access.store(hn::Add(access.load(to + i), access.load(from + i)), to + i);
  });
}

template <typename T>
HWY_INLINE void scatter_rows(std::span<const std::int32_t> tokens, std::int64_t sequence,
                             const Matrix& gradient, const Matrix& table, const Matrix& positions) {
  for (std::int64_t row = 0; row < gradient.rows; ++row) {
    const T* from = gradient.row<T>(row);
    add_row(from, gradient.columns, table.row<float>(tokens[static_cast<std::size_t>(row)]));
    if (positions) add_row(from, gradient.columns, positions.row<float>(row % sequence));
  }
}

void scatter(std::span<const std::int32_t> tokens, std::int64_t sequence, const Matrix& gradient,
             const Matrix& table, const Matrix& positions) {
  with_storage_type(gradient.dtype, [&]<typename T>(T) HWY_ATTR {
    scatter_rows<T>(tokens, sequence, gradient, table, positions);
  });
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

void embedding_on_cpu(CpuContext& context, std::span<const std::int32_t> tokens, const Matrix& table,
                      const Matrix& positions, std::int64_t sequence, const Matrix& out) {
  assert(static_cast<std::int64_t>(tokens.size()) == out.rows);
  context.pool.for_ranges(
      out.rows, rows_per_task(out.columns), [&](std::int64_t begin, std::int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(look_up)(tokens, table, positions, sequence, out, begin, end);
      });
}

void embedding_backward_on_cpu(CpuContext& context, std::span<const std::int32_t> tokens,
                               std::int64_t sequence, const Matrix& out_gradient,
                               const Matrix& table_gradient, const Matrix& positions_gradient) {
  assert(static_cast<std::int64_t>(tokens.size()) == out_gradient.rows);
  const std::int64_t columns = out_gradient.columns;
  const std::int64_t groups = (columns + kScatterColumns - 1) / kScatterColumns;
  context.pool.for_each(groups, [&](std::int64_t group, int) {
    const std::int64_t first = group * kScatterColumns;
    const std::int64_t count = std::min(kScatterColumns, columns - first);
    HWY_DYNAMIC_DISPATCH(scatter)
    (tokens, sequence, out_gradient.column_slice(first, count), table_gradient.column_slice(first, count),
     positions_gradient ? positions_gradient.column_slice(first, count) : Matrix());
  });
}

}  // namespace strata
#endif
