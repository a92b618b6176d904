#include "engine/device/cpu/packed_kernels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/storage_type.h"
#include "engine/device/cpu/conversion.h"
#include "engine/device/cpu/packing.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/packed_kernels.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

constexpr int kVectors = 2;
constexpr std::int64_t kPanel = kVectors * static_cast<std::int64_t>(hn::MaxLanes(FloatTag()));

/// Rows that share one pass over a panel: six by two vectors of sums leave room for factors in 16 registers.
constexpr std::int64_t kRows = 6;

/// From one panel, or six, to the next: a line or so more than it needs, so that their starts do not fall
/// into the same sets of a cache.
constexpr std::int64_t panel_depth(std::int64_t depth) {
  return depth + 1;
}
constexpr std::int64_t six_depth(std::int64_t depth) {
  return depth + 3;
}

/// rows × kPanel sums of a panel. Element (i, k) of the first operand is a[i * a_row + k * a_column].
template <int rows, std::int64_t a_row, std::int64_t a_column>
HWY_INLINE void multiply_rows(const PackedBlock& block, const float* a, const float* b, const float* bias,
                              float* out, std::int64_t out_stride, bool accumulate) {
  const FloatTag d;
  Float sums[rows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
    __builtin_prefetch(out + i * out_stride, 1);
    __builtin_prefetch(out + i * out_stride + kPanel - 1, 1);
    for (int j = 0; j < kVectors; ++j)
      sums[i][j] = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + j * lanes());
  }
#pragma GCC unroll 4
  for (std::int64_t k = 0; k < block.depth; ++k) {
    const Float left = hn::Load(d, b + k * kPanel), right = hn::Load(d, b + k * kPanel + lanes());
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const Float factor = hn::Set(d, a[i * a_row + k * a_column]);
      sums[i][0] = hn::MulAdd(factor, left, sums[i][0]);
      sums[i][1] = hn::MulAdd(factor, right, sums[i][1]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      float* to = out + i * out_stride + j * lanes();
      hn::StoreU(accumulate ? hn::Add(sums[i][j], hn::LoadU(d, to)) : sums[i][j], d, to);
    }
  }
}

template <int rows, std::int64_t a_row, std::int64_t a_column>
void multiply_panel(const PackedBlock& block, const float* a, std::int64_t row, std::int64_t column) {
  const float* b = block.b + column * panel_depth(block.depth);
  const float* bias = block.bias == nullptr ? nullptr : block.bias + column;
  float* out = block.out + row * block.out_stride + column;
  const std::int64_t columns = block.columns - column;
  if (columns >= kPanel)
    return multiply_rows<rows, a_row, a_column>(block, a, b, bias, out, block.out_stride, block.accumulate);
  HWY_ALIGN float edge[rows * kPanel] = {};
  const auto bytes = static_cast<std::size_t>(columns) * sizeof(float);
  for (int i = 0; i < rows && block.accumulate; ++i)
    std::memcpy(edge + i * kPanel, out + i * block.out_stride, bytes);
  multiply_rows<rows, a_row, a_column>(block, a, b, bias, edge, kPanel, block.accumulate);
  for (int i = 0; i < rows; ++i) std::memcpy(out + i * block.out_stride, edge + i * kPanel, bytes);
}

template <std::int64_t a_row, std::int64_t a_column>
void multiply_panels(const PackedBlock& block) {
  for (std::int64_t column = 0; column < block.columns; column += kPanel) {
    for (std::int64_t row = 0; row < block.rows; row += kRows) {
      const float* a = block.a + row * (a_column == 1 ? a_row : six_depth(block.depth));
      switch (std::min(kRows, block.rows - row)) {
        case 1:
          multiply_panel<1, a_row, a_column>(block, a, row, column);
          break;
        case 2:
          multiply_panel<2, a_row, a_column>(block, a, row, column);
          break;
        case 3:
          multiply_panel<3, a_row, a_column>(block, a, row, column);
          break;
        case 4:
          multiply_panel<4, a_row, a_column>(block, a, row, column);
          break;
        case 5:
          multiply_panel<5, a_row, a_column>(block, a, row, column);
          break;
        default:
          multiply_panel<kRows, a_row, a_column>(block, a, row, column);
      }
    }
  }
}

void multiply_block_vectors(const PackedBlock& block) {
  block.transposed ? multiply_panels<1, kRows>(block) : multiply_panels<kPackedRowStride, 1>(block);
}

/// Rows that are asked for ahead of their use: they are short and far apart, so the hardware does not.
constexpr std::int64_t kRowsAhead = 8;

template <class T>
HWY_INLINE void prefetch_row_ahead(const T* row, std::int64_t stride, std::int64_t elements) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < elements; i += kLine) hwy::Prefetch(row + kRowsAhead * stride + i);
}

/// [depth, columns] of `from`, which starts at its `depth`, as panels; columns that do not exist are zeros.
template <class T>
void pack_panels(const T* from, std::int64_t stride, std::int64_t depth, std::int64_t columns, float* to) {
  const std::int64_t whole = columns / kPanel * kPanel;
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* row = from + k * stride;
    prefetch_row_ahead(row, stride, columns);
    for (std::int64_t column = 0; column < whole; column += kPanel) {
      float* panel = to + column * panel_depth(depth) + k * kPanel;
      const Float left = load(row + column), right = load(row + column + lanes());
      store(left, panel);
      store(right, panel + lanes());
    }
    if (whole < columns) {
      float* panel = to + whole * panel_depth(depth) + k * kPanel;
      for (std::int64_t i = 0; i < kPanel; ++i)
        panel[i] = i < columns - whole ? static_cast<float>(row[whole + i]) : 0.0F;
    }
  }
}

/// Sixes of rows of an operand that is stored as [depth, rows]; `row` has room for kPackedRows.
template <class T>
void pack_sixes(const T* from, std::int64_t stride, std::int64_t depth, std::int64_t rows, float* row,
                float* to) {
  for (std::int64_t k = 0; k < depth; ++k) {
    const float* values = row;
    prefetch_row_ahead(from + k * stride, stride, rows);
    if constexpr (std::is_same_v<T, float>) {
      values = from + k * stride;
    } else {
      map(from + k * stride, row, rows, [](Float value) HWY_ATTR { return value; });
    }
    std::int64_t i = 0;
    for (; i + kRows <= rows; i += kRows)
      std::memcpy(to + i * six_depth(depth) + k * kRows, values + i, kRows * sizeof(float));
    for (std::int64_t rest = i; rest < rows; ++rest)
      to[i * six_depth(depth) + k * kRows + rest - i] = values[rest];
  }
}

/// The second operand's panels. Stored as [depth, columns], or transposed.
void pack_second_vectors(const Matrix& from, bool transposed, float* widened, float* to) {
  if (!transposed) {
    with_storage_type(from.dtype, [&]<class T>(T) HWY_ATTR {
      pack_panels(from.row<T>(0), from.stride, from.rows, from.columns, to);
    });
    return;
  }
  const std::int64_t depth = from.columns;
  for (std::int64_t column = 0; column < from.rows; column += kPanel) {
    const std::int64_t columns = std::min(kPanel, from.rows - column);
    Matrix source = from.row_slice(column, columns);
    if (source.dtype != DType::fp32) {
      const Matrix wide(widened, DType::fp32, columns, depth, kPackedRowStride);
      convert(source, wide);
      source = wide;
    }
    if (columns < kPanel) std::fill_n(to + column * panel_depth(depth), kPanel * depth, 0.0F);
    pack_transposed(source, to + column * panel_depth(depth), kPanel);
  }
}

/// The first operand's rows, or sixes if it is stored as [depth, rows].
void pack_first_vectors(const Matrix& from, bool transposed, float* widened, float* to) {
  if (!transposed) {
    with_storage_type(from.dtype, [&]<class T>(T) HWY_ATTR {
      for (std::int64_t i = 0; i < from.rows; ++i) {
        prefetch_row_ahead(from.row<T>(i), from.stride, from.columns);
        map(from.row<T>(i), to + i * kPackedRowStride, from.columns,
            [](Float value) HWY_ATTR { return value; });
      }
    });
    return;
  }
  with_storage_type(from.dtype, [&]<class T>(T) HWY_ATTR {
    pack_sixes(from.row<T>(0), from.stride, from.rows, from.columns, widened, to);
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(multiply_block_vectors);
HWY_EXPORT(pack_first_vectors);
HWY_EXPORT(pack_second_vectors);

void pack_first(const Matrix& from, bool transposed, float* widened, float* to) {
  HWY_DYNAMIC_DISPATCH(pack_first_vectors)(from, transposed, widened, to);
}
void pack_second(const Matrix& from, bool transposed, float* widened, float* to) {
  HWY_DYNAMIC_DISPATCH(pack_second_vectors)(from, transposed, widened, to);
}
void multiply_block(const PackedBlock& block) {
  HWY_DYNAMIC_DISPATCH(multiply_block_vectors)(block);
}

}  // namespace strata
#endif
