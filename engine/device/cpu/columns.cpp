// Kernels that know a number for each column: factors of columns, and sums of products over rows.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/columns.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"
#include "engine/device/product_calls.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

/// Columns that are summed at once, and rows that are added before their sum is: as sums grow they lose
/// digits.
constexpr std::int64_t kDotColumns = 64, kDotRows = 256;

template <typename T>
HWY_INLINE void add_products(const Matrix& a, const Matrix& b, float* sums) {
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const T* first = a.row<const T>(row);
    const T* second = b.row<const T>(row);
    for_vectors(a.columns, [&](auto access, std::int64_t i) HWY_ATTR {
      access.store(hn::Add(access.load(sums + i), hn::Mul(access.load(first + i), access.load(second + i))),
                   sums + i);
    });
  }
}

/// sums += factors · a · b over rows, of at most kDotColumns columns.
void dot_columns(const Matrix& a, const Matrix& b, const float* factors, float* sums) {
  with_storage_type(a.dtype, [&]<typename T>(T) HWY_ATTR {
    std::array<float, kDotColumns> all = {};
    for (std::int64_t row = 0; row < a.rows; row += kDotRows) {
      const std::int64_t rows = std::min(kDotRows, a.rows - row);
      std::array<float, kDotColumns> some = {};
      add_products<T>(a.row_slice(row, rows), b.row_slice(row, rows), some.data());
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += some[i];
    }
    for (std::int64_t i = 0; i < a.columns; ++i) {
      const float sum = nth(all, i);
      sums[i] += factors == nullptr ? sum : factors[i] * sum;
    }
  });
}

void scale_columns(const ColumnScale& call, std::int64_t begin, std::int64_t end) {
  with_storage_type(call.x.dtype, [&]<typename T>(T) HWY_ATTR {
    const auto* factors = call.factors ? call.factors.row<const float>(0) : nullptr;
    const T* bias = call.bias ? call.bias.row<const T>(0) : nullptr;
    for (std::int64_t row = begin; row < end; ++row) {
      const T* from = call.x.row<const T>(row);
      T* to = call.out.row<T>(row);
      const Float of_row = broadcast(call.row_factors ? call.row_factors.row<const float>(0)[row] : 1.0F);
      for_vectors(call.x.columns, [&](auto access, std::int64_t i) HWY_ATTR {
        const Float addend = bias == nullptr ? broadcast(0) : access.load(bias + i);
        const Float factor = factors == nullptr ? broadcast(1) : access.load(factors + i);
        const Float scaled = hn::Mul(access.load(from + i), factor);
        access.store(hn::Mul(hn::Add(scaled, addend), of_row), to + i);
      });
    }
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(dot_columns);
HWY_EXPORT(scale_columns);

}  // namespace

void run_on_cpu(CpuContext& context, const ColumnDots& call) {
  assert(call.sums.dtype == DType::fp32 && call.sums.columns == call.a.columns);
  constexpr std::int64_t kColumns = HWY_NAMESPACE::kDotColumns;
  context.pool.for_ranges(call.a.columns, kColumns, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t first = begin; first < end; first += kColumns) {
      const std::int64_t count = std::min(kColumns, end - first);
      const float* factors = call.factors ? call.factors.row<const float>(0) + first : nullptr;
      HWY_DYNAMIC_DISPATCH(dot_columns)
      (call.a.column_slice(first, count), call.b.column_slice(first, count), factors,
       call.sums.row<float>(0) + first);
    }
  });
}

void run_on_cpu(CpuContext& context, const ColumnScale& call) {
  context.pool.for_ranges(call.x.rows, rows_per_task(call.x.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(scale_columns)(call, begin, end);
                          });
}

void run_on_cpu(CpuContext& /*context*/, const MagnitudeFactors& call) {
  const auto* squares = call.squares.row<const float>(0);
  const auto* dots = call.dots.row<const float>(0);
  auto* reciprocal_norms = call.reciprocal_norms.row<float>(0);
  auto* factors = call.factors.row<float>(0);
  with_storage_type(call.magnitudes.dtype, [&]<typename T>(T) {
    const T* magnitudes = call.magnitudes.row<const T>(0);
    for (std::int64_t i = 0; i < call.magnitudes.columns; ++i) {
      const float square = squares[i] + dots[i];
      reciprocal_norms[i] = square > 0 ? 1.0F / std::sqrt(square) : 0.0F;
      factors[i] = static_cast<float>(magnitudes[i]) * reciprocal_norms[i];
    }
  });
}

}  // namespace strata
#endif
