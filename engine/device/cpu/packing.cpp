// Three primitives serve all cases, on 32-bit words (a float, or a pair of bf16): copy, transpose, and
// interleave two bf16 rows. fp16 is widened on the way into them.
#include "engine/device/cpu/packing.h"

#include <algorithm>
#include <cstring>

#include "engine/device/cpu/block_product.h"
#include "engine/device/cpu/conversion.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/packing.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

using Word = std::uint32_t;
/// Side of the square that is transposed at once: a cache line of words.
constexpr std::int64_t kSquare = 16;

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void transpose_square(const Word* from, std::int64_t from_stride, Word* to,
                                 std::int64_t to_stride) {
  for (std::int64_t i = 0; i < kSquare; ++i) {
    for (std::int64_t j = 0; j < kSquare; ++j) to[j * to_stride + i] = from[i * from_stride + j];
  }
}
#elif HWY_MAX_BYTES == 64
/// 16 rows in 16 registers: words within 128-bit blocks first, then the blocks.
HWY_INLINE void transpose_square(const Word* from, std::int64_t from_stride, Word* to,
                                 std::int64_t to_stride) {
  const hn::FixedTag<Word, 16> d;
  const hn::FixedTag<std::uint64_t, 8> d64;
  using V = hn::Vec<decltype(d)>;
  V column[4][4];  // [row group][column within a block]
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    const Word* row = from + g * 4 * from_stride;
    const V a = hn::LoadU(d, row), b = hn::LoadU(d, row + from_stride);
    const V c = hn::LoadU(d, row + 2 * from_stride), e = hn::LoadU(d, row + 3 * from_stride);
    const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
    const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
    const auto ce_low = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
    const auto ce_high = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
    column[g][0] = hn::BitCast(d, hn::InterleaveLower(d64, ab_low, ce_low));
    column[g][1] = hn::BitCast(d, hn::InterleaveUpper(d64, ab_low, ce_low));
    column[g][2] = hn::BitCast(d, hn::InterleaveLower(d64, ab_high, ce_high));
    column[g][3] = hn::BitCast(d, hn::InterleaveUpper(d64, ab_high, ce_high));
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const V low02 = hn::ConcatLowerLower(d, column[2][j], column[0][j]);
    const V low13 = hn::ConcatLowerLower(d, column[3][j], column[1][j]);
    const V high02 = hn::ConcatUpperUpper(d, column[2][j], column[0][j]);
    const V high13 = hn::ConcatUpperUpper(d, column[3][j], column[1][j]);
    hn::StoreU(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(low13), low02), d, to + j * to_stride);
    hn::StoreU(hn::OddEvenBlocks(low13, hn::SwapAdjacentBlocks(low02)), d, to + (4 + j) * to_stride);
    hn::StoreU(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high13), high02), d, to + (8 + j) * to_stride);
    hn::StoreU(hn::OddEvenBlocks(high13, hn::SwapAdjacentBlocks(high02)), d, to + (12 + j) * to_stride);
  }
}
#else
HWY_INLINE void transpose_square(const Word* from, std::int64_t from_stride, Word* to,
                                 std::int64_t to_stride) {
  const hn::FixedTag<Word, 4> d;
  const hn::FixedTag<std::uint64_t, 2> d64;
  for (std::int64_t i = 0; i < kSquare; i += 4) {
    for (std::int64_t j = 0; j < kSquare; j += 4) {
      const Word* row = from + i * from_stride + j;
      const auto a = hn::LoadU(d, row), b = hn::LoadU(d, row + from_stride);
      const auto c = hn::LoadU(d, row + 2 * from_stride), e = hn::LoadU(d, row + 3 * from_stride);
      const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
      const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
      const auto ce_low = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
      const auto ce_high = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
      Word* out = to + j * to_stride + i;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, ab_low, ce_low)), d, out);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, ab_low, ce_low)), d, out + to_stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, ab_high, ce_high)), d, out + 2 * to_stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, ab_high, ce_high)), d, out + 3 * to_stride);
    }
  }
}
#endif

/// to[columns, rows] = from[rows, columns] transposed, in words.
void transpose_words(const Word* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                     Word* to, std::int64_t to_stride) {
  const std::int64_t whole_rows = rows / kSquare * kSquare;
  const std::int64_t whole_columns = columns / kSquare * kSquare;
  for (std::int64_t i = 0; i < whole_rows; i += kSquare) {
    for (std::int64_t j = 0; j < whole_columns; j += kSquare) {
      transpose_square(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) {
      std::memcpy(to + j * to_stride + i, from + i * from_stride + j, sizeof(Word));
    }
  }
}

/// to[i] = the pair (first[i], second[i]); no second row: zeros.
HWY_INLINE void interleave(const bfloat16* first, const bfloat16* second, std::int64_t count, Word* to) {
  const WordTag d;
  const HalfWordTag half;
  const auto* low = reinterpret_cast<const std::uint16_t*>(first);
  const auto* high = reinterpret_cast<const std::uint16_t*>(second);
  std::int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) {
    auto pairs = hn::PromoteTo(d, hn::LoadU(half, low + i));
    if (high != nullptr)
      pairs = hn::Or(pairs, hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, high + i))));
    hn::StoreU(pairs, d, to + i);
  }
  for (; i < count; ++i) to[i] = low[i] | (high == nullptr ? 0U : static_cast<Word>(high[i]) << 16U);
}

void panel_fp32(const PanelSource& source, Word* panel) {
  const auto* from = static_cast<const Word*>(source.source);
  if (source.columns < kPanelColumns) std::fill_n(panel, source.depth * kPanelColumns, 0U);
  if (source.transposed) {
    transpose_words(from, source.stride, source.columns, source.depth, panel, kPanelColumns);
    return;
  }
  for (std::int64_t k = 0; k < source.depth; ++k) {
    std::memcpy(panel + k * kPanelColumns, from + k * source.stride,
                static_cast<std::size_t>(source.columns) * 4);
  }
}

void panel_bf16(const PanelSource& source, Word* panel) {
  const auto* from = static_cast<const bfloat16*>(source.source);
  const std::int64_t pairs = source.depth / 2;
  const bool odd = source.depth % 2 != 0;
  if (source.columns < kPanelColumns || odd) std::fill_n(panel, (pairs + (odd ? 1 : 0)) * kPanelColumns, 0U);
  if (!source.transposed) {
    for (std::int64_t k = 0; k < source.depth; k += 2) {
      const bfloat16* first = from + k * source.stride;
      interleave(first, k + 1 < source.depth ? first + source.stride : nullptr, source.columns,
                 panel + k / 2 * kPanelColumns);
    }
    return;
  }
  if (source.stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(from) % sizeof(Word) == 0) {
    transpose_words(reinterpret_cast<const Word*>(from), source.stride / 2, source.columns, pairs, panel,
                    kPanelColumns);
  } else {
    for (std::int64_t j = 0; j < source.columns; ++j) {
      for (std::int64_t k = 0; k < pairs; ++k) {
        std::memcpy(panel + k * kPanelColumns + j, from + j * source.stride + 2 * k, sizeof(Word));
      }
    }
  }
  if (odd) {
    for (std::int64_t j = 0; j < source.columns; ++j) {
      panel[pairs * kPanelColumns + j] = from[j * source.stride + source.depth - 1].bits;
    }
  }
}

void transpose_fp32(const Matrix& from, Word* to, std::int64_t to_stride) {
  transpose_words(static_cast<const Word*>(from.data), from.stride, from.rows, from.columns, to, to_stride);
}

/// Rows and columns that are transposed through a buffer, which stays in the first-level cache.
constexpr std::int64_t kBufferRows = 64;
constexpr std::int64_t kBufferColumns = 64;

/// Through a buffer of pairs. `to_stride` is even.
void transpose_bf16(const Matrix& from, Word* to, std::int64_t to_stride) {
  HWY_ALIGN Word pairs[kBufferRows / 2 * kBufferColumns];
  for (std::int64_t column = 0; column < from.columns; column += kBufferColumns) {
    const std::int64_t columns = std::min(kBufferColumns, from.columns - column);
    for (std::int64_t row = 0; row < from.rows; row += kBufferRows) {
      const std::int64_t rows = std::min(kBufferRows, from.rows - row);
      for (std::int64_t k = 0; k < rows; k += 2) {
        const bfloat16* first = from.row<bfloat16>(row + k) + column;
        interleave(first, k + 1 < rows ? first + from.stride : nullptr, columns,
                   pairs + k / 2 * kBufferColumns);
      }
      transpose_words(pairs, kBufferColumns, (rows + 1) / 2, columns, to + column * (to_stride / 2) + row / 2,
                      to_stride / 2);
    }
  }
}

/// Through a buffer of floats.
void transpose_fp16(const Matrix& from, Word* to, std::int64_t to_stride) {
  HWY_ALIGN Word wide[kBufferRows * kBufferColumns];
  for (std::int64_t column = 0; column < from.columns; column += kBufferColumns) {
    const std::int64_t columns = std::min(kBufferColumns, from.columns - column);
    for (std::int64_t row = 0; row < from.rows; row += kBufferRows) {
      const std::int64_t rows = std::min(kBufferRows, from.rows - row);
      convert(from.row_slice(row, rows).column_slice(column, columns),
              {wide, DType::fp32, rows, columns, kBufferColumns});
      transpose_words(wide, kBufferColumns, rows, columns, to + column * to_stride + row, to_stride);
    }
  }
}

void panel_fp16(const PanelSource& source, Word* panel) {
  if (source.columns < kPanelColumns) std::fill_n(panel, source.depth * kPanelColumns, 0U);
  auto* from = const_cast<void*>(source.source);
  if (source.transposed) {
    transpose_fp16({from, DType::fp16, source.columns, source.depth, source.stride}, panel, kPanelColumns);
  } else {
    convert({from, DType::fp16, source.depth, source.columns, source.stride},
            {panel, DType::fp32, source.depth, source.columns, kPanelColumns});
  }
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(panel_fp32);
HWY_EXPORT(panel_bf16);
HWY_EXPORT(panel_fp16);
HWY_EXPORT(transpose_fp32);
HWY_EXPORT(transpose_bf16);
HWY_EXPORT(transpose_fp16);

void pack_panel(const PanelSource& source, void* panel) {
  auto* words = static_cast<std::uint32_t*>(panel);
  switch (source.dtype) {
    case DType::fp32:
      return HWY_DYNAMIC_DISPATCH(panel_fp32)(source, words);
    case DType::bf16:
      return HWY_DYNAMIC_DISPATCH(panel_bf16)(source, words);
    case DType::fp16:
      return HWY_DYNAMIC_DISPATCH(panel_fp16)(source, words);
  }
}

void pack_transposed(const Matrix& from, void* to, std::int64_t to_stride) {
  auto* words = static_cast<std::uint32_t*>(to);
  switch (from.dtype) {
    case DType::fp32:
      return HWY_DYNAMIC_DISPATCH(transpose_fp32)(from, words, to_stride);
    case DType::bf16:
      return HWY_DYNAMIC_DISPATCH(transpose_bf16)(from, words, to_stride);
    case DType::fp16:
      return HWY_DYNAMIC_DISPATCH(transpose_fp16)(from, words, to_stride);
  }
}

void pack_rows(const Matrix& from, void* to, std::int64_t to_stride) {
  const DType packed = packed_dtype(from.dtype);
  const Matrix out(to, packed, from.rows, from.columns, to_stride);
  convert(from, out);
  const std::int64_t padding = padded_depth(packed, from.columns) - from.columns;
  for (std::int64_t row = 0; row < from.rows && padding > 0; ++row) {
    std::memset(out.row_slice(row, 1).column_slice(from.columns, padding).data, 0,
                static_cast<std::size_t>(padding * size_of(packed)));
  }
}

}  // namespace strata
#endif
