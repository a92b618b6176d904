// Tables with few rows that are not zero: taking those rows out, and adding up what ranks have taken.
#include <algorithm>
#include <cassert>

#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/row_lists.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/rows.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/row_calls.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

template <typename From, typename To>
HWY_INLINE void copy_rows_of_type(const Matrix& x, std::span<const std::int32_t> rows, const Matrix& out,
                                  std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int32_t row = nth(rows, i);
    if (row == kNoRow) {
      std::fill_n(out.row<To>(i), out.columns, To(0.0F));
    } else {
      map(x.row<const From>(row), out.row<To>(i), out.columns, [](Float value) HWY_ATTR { return value; });
    }
  }
}

void copy_rows(const Matrix& x, std::span<const std::int32_t> rows, const Matrix& out, std::int64_t begin,
               std::int64_t end) {
  with_storage_type(x.dtype, [&]<typename From>(From) HWY_ATTR {
    with_storage_type(
        out.dtype, [&]<typename To>(To) HWY_ATTR { copy_rows_of_type<From, To>(x, rows, out, begin, end); });
  });
}

/// Columns that are added up at a time.
constexpr std::int64_t kColumns = 1024;

template <typename T>
HWY_INLINE void add_up(const RowSum& sum, const RowLists& lists, std::int32_t row, std::int64_t first,
                       std::int64_t count, T* out) {
  HWY_ALIGN float totals[kColumns];
  for (std::int64_t rank = 0; rank < lists.ranks; ++rank) {
    const std::int64_t place = lists.find(rank, row);
    const T* values = place < 0 ? nullptr : sum.values.row<const T>(place) + first;
    for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
      // A rank without the row has +0 there, which makes a difference to -0.
      const Float value = values == nullptr ? hn::Zero(FloatTag()) : access.load(values + i);
      access.store(rank == 0 ? value : hn::Add(access.load(totals + i), value), totals + i);
    });
  }
  map(totals, out, count, [](Float value) HWY_ATTR { return value; });
}

template <typename T>
HWY_INLINE void sum_rows_of_type(const RowSum& sum, std::int64_t begin, std::int64_t end) {
  const RowLists lists(sum.rows.data(), sum.ranks, static_cast<std::int64_t>(sum.rows.size()) / sum.ranks);
  for (std::int64_t place = begin; place < end; ++place) {
    if (!lists.is_first(place)) continue;
    const std::int32_t row = lists.rows[place];
    const RowPart part = part_of_row(row, sum.values.columns, sum.first, sum.out.columns);
    for (std::int64_t done = 0; done < part.count; done += kColumns) {
      add_up(sum, lists, row, part.column + done, std::min(kColumns, part.count - done),
             sum.out.row<T>(0) + part.at + done);
    }
  }
}

void sum_rows(const RowSum& sum, std::int64_t begin, std::int64_t end) {
  with_storage_type(sum.out.dtype, [&]<typename T>(T) HWY_ATTR { sum_rows_of_type<T>(sum, begin, end); });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(copy_rows);
HWY_EXPORT(sum_rows);

void run_on_cpu(CpuContext& context, const RowCopy& call) {
  const auto& [x, rows, out] = call;
  assert(static_cast<std::int64_t>(rows.size()) == out.rows);
  context.pool.for_ranges(out.rows, rows_per_task(out.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(copy_rows)(x, rows, out, begin, end);
                          });
}

void run_on_cpu(CpuContext& context, const RowSum& sum) {
  assert(sum.values.dtype == sum.out.dtype && static_cast<std::int64_t>(sum.rows.size()) == sum.values.rows);
  run_on_cpu(context, Zero{sum.out});
  context.pool.for_ranges(sum.values.rows, rows_per_task(sum.values.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(sum_rows)(sum, begin, end);
                          });
}

}  // namespace strata
#endif
