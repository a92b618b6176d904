// Matrix products from block products. The right operand is packed into panels, the left one only where it is stored transposed
// (or has an odd bf16 depth); then blocks of rows meet panels, each pair a task. Depth is cut only above kDepthChunk, at places
// that depend on the shape alone, and every output element is summed by one thread in ascending depth: any number of threads
// gives the same bits. Packed copies are bounded, so a vocabulary-sized operand passes through in pieces.
#include <algorithm>
#include <array>
#include <cassert>

#include "engine/device/cpu/block_product.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/finish.h"
#include "engine/device/cpu/packing.h"

namespace strata {
namespace {

/// A panel of this depth still streams well through the second-level cache.
constexpr std::int64_t kDepthChunk = 4096;
/// Bound of each packed copy: a part of the last-level cache.
constexpr Bytes kPackedBytes = 16 * MiB;
/// A block of rows stays in the second-level cache while all panels pass.
constexpr Bytes kBlockBytes = 512 * KiB;
constexpr std::int64_t kMaximumBlockRows = 192;
/// Rows whose sums wait in the first-level cache to be finished.
constexpr std::int64_t kFinishRows = 4 * kBlockRows;
/// Extent of one packing task in depth, and in rows of the left operand.
constexpr std::int64_t kPackDepth = 256;
constexpr std::int64_t kPackRows = 256;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

/// Part [first, first + count) of a dimension.
struct Range {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class Multiplication {
 public:
  Multiplication(CpuContext& context, const Product& product);
  void run();

 private:
  std::byte* layout(std::byte* base);
  void pack_right(Range columns, Range depth);
  void pack_left(Range rows, Range depth);
  void multiply(Range rows, Range columns, Range depth);
  void multiply_tile(BlockProduct block, Range rows, std::int64_t column, std::int64_t partial_column, bool first,
                     bool last) const;

  CpuContext& context_;
  const Product& product_;
  BlockProductFunction block_product_;
  DType dtype_;
  std::int64_t m_, n_, k_;
  std::int64_t depth_chunk_, column_chunk_, row_chunk_, block_rows_, left_stride_;
  bool pack_left_;  ///< else blocks are read where they are
  bool direct_;     ///< sums can be formed in `out`
  Bytes scratch_bytes_ = 0;
  std::byte* panels_ = nullptr;
  std::byte* left_ = nullptr;
  float* partial_ = nullptr;  ///< sums between depth chunks, where they cannot be formed in `out`
};

Multiplication::Multiplication(CpuContext& context, const Product& product)
    : context_(context),
      product_(product),
      block_product_(block_product_for(product.a.dtype)),
      dtype_(product.a.dtype),
      m_(product.out.rows),
      n_(product.out.columns),
      k_(product.transpose_a ? product.a.rows : product.a.columns) {
  assert(product.b.dtype == dtype_);
  assert((product.transpose_a ? product.a.columns : product.a.rows) == m_);
  assert((product.transpose_b ? product.b.rows : product.b.columns) == n_);
  assert((product.transpose_b ? product.b.columns : product.b.rows) == k_);
  assert(product.out.dtype == dtype_ || product.out.dtype == DType::fp32);
  const std::int64_t element = size_of(dtype_);
  depth_chunk_ = k_ <= kDepthChunk ? k_ : round_up(divide_up(k_, divide_up(k_, kDepthChunk)), kPackDepth);
  column_chunk_ =
      std::min(round_up(n_, kPanelColumns),
               std::max<std::int64_t>(1, kPackedBytes / panel_bytes(dtype_, depth_chunk_)) * kPanelColumns);
  pack_left_ = product.transpose_a || padded_depth(dtype_, k_) != k_;
  // Rows a multiple of the cache's page apart would compete for the same lines.
  left_stride_ = padded_depth(dtype_, depth_chunk_) + 64 / element;
  const std::int64_t fitting = kBlockBytes / (depth_chunk_ * element) / kBlockRows * kBlockRows;
  const std::int64_t most = std::clamp(fitting, 4 * kBlockRows, kMaximumBlockRows);
  block_rows_ = round_up(divide_up(m_, divide_up(m_, most)), kBlockRows);
  row_chunk_ = pack_left_ ? std::max(block_rows_, kPackedBytes / (left_stride_ * element) / block_rows_ * block_rows_) : m_;
  direct_ = product.out.dtype == DType::fp32 && !product.bias;
}

std::byte* Multiplication::layout(std::byte* base) {
  Pieces pieces(base);
  const std::int64_t panels = panel_count(std::min(column_chunk_, n_));
  panels_ = pieces.take<std::byte>(panels * panel_bytes(dtype_, depth_chunk_));
  if (pack_left_) left_ = pieces.take<std::byte>(std::min(row_chunk_, m_) * left_stride_ * size_of(dtype_));
  if (!direct_ && depth_chunk_ < k_) partial_ = pieces.take<float>(m_ * panels * kPanelColumns);
  scratch_bytes_ = pieces.used();
  return base;
}

void Multiplication::run() {
  layout(nullptr);
  layout(context_.scratch.shared(scratch_bytes_));
  for (std::int64_t column = 0; column < n_; column += column_chunk_) {
    const Range columns{column, std::min(column_chunk_, n_ - column)};
    for (std::int64_t k = 0; k < k_; k += depth_chunk_) {
      const Range depth{k, std::min(depth_chunk_, k_ - k)};
      pack_right(columns, depth);
      for (std::int64_t row = 0; row < m_; row += row_chunk_) {
        const Range rows{row, std::min(row_chunk_, m_ - row)};
        if (pack_left_) pack_left(rows, depth);
        multiply(rows, columns, depth);
      }
    }
  }
}

void Multiplication::pack_right(Range columns, Range depth) {
  const Matrix& b = product_.b;
  const std::int64_t slices = divide_up(depth.count, kPackDepth);
  context_.pool.for_each(panel_count(columns.count) * slices, [&](std::int64_t task, int) {
    const std::int64_t panel = task / slices;
    const std::int64_t k = task % slices * kPackDepth;
    const std::int64_t row = depth.first + k;
    const std::int64_t column = columns.first + panel * kPanelColumns;
    PanelSource source{.dtype = dtype_, .stride = b.stride, .transposed = product_.transpose_b};
    source.source = (product_.transpose_b ? b.row_slice(column, 1).column_slice(row, 1)
                                          : b.row_slice(row, 1).column_slice(column, 1))
                        .data;
    source.depth = std::min(kPackDepth, depth.count - k);
    source.columns = std::min(kPanelColumns, columns.count - panel * kPanelColumns);
    pack_panel(source, panels_ + panel * panel_bytes(dtype_, depth.count) + panel_bytes(dtype_, k));
  });
}

void Multiplication::pack_left(Range rows, Range depth) {
  const Matrix& a = product_.a;
  const std::int64_t slices = divide_up(depth.count, kPackDepth);
  context_.pool.for_each(divide_up(rows.count, kPackRows) * slices, [&](std::int64_t task, int) {
    const std::int64_t row = task / slices * kPackRows;
    const std::int64_t k = task % slices * kPackDepth;
    const std::int64_t row_count = std::min(kPackRows, rows.count - row);
    const std::int64_t k_count = std::min(kPackDepth, depth.count - k);
    std::byte* to = left_ + (row * left_stride_ + k) * size_of(dtype_);
    if (product_.transpose_a) {
      const Matrix part =
          a.row_slice(depth.first + k, k_count).column_slice(rows.first + row, row_count);
      pack_transposed(part, to, left_stride_);
    } else {
      pack_rows(a.row_slice(rows.first + row, row_count).column_slice(depth.first + k, k_count), to, left_stride_);
    }
  });
}

void Multiplication::multiply(Range rows, Range columns, Range depth) {
  const std::int64_t panels = panel_count(columns.count);
  const bool first = depth.first == 0;
  const bool last = depth.first + depth.count == k_;
  context_.pool.for_each(divide_up(rows.count, block_rows_) * panels, [&](std::int64_t task, int) {
    const std::int64_t row = task / panels * block_rows_;
    const std::int64_t panel = task % panels;
    BlockProduct block;
    if (pack_left_) {
      block.a = left_ + row * left_stride_ * size_of(dtype_);
      block.a_stride = left_stride_;
    } else {
      block.a = product_.a.row_slice(rows.first + row, 1).column_slice(depth.first, 1).data;
      block.a_stride = product_.a.stride;
    }
    block.panel = panels_ + panel * panel_bytes(dtype_, depth.count);
    block.depth = depth.count;
    multiply_tile(block, {rows.first + row, std::min(block_rows_, rows.count - row)},
                  columns.first + panel * kPanelColumns, panel * kPanelColumns, first, last);
  });
}

void Multiplication::multiply_tile(BlockProduct block, Range rows, std::int64_t column, std::int64_t partial_column,
                                   bool first, bool last) const {
  const Matrix& out = product_.out;
  const std::int64_t columns = std::min(kPanelColumns, n_ - column);
  if (direct_ && columns == kPanelColumns) {
    block.rows = rows.count;
    block.out = out.row<float>(rows.first) + column;
    block.out_stride = out.stride;
    block.accumulate = product_.accumulate || !first;
    block_product_(block);
    return;
  }
  alignas(64) std::array<float, kFinishRows * kPanelColumns> buffer;
  const bool accumulate = product_.accumulate || (direct_ && !first);
  const Matrix bias = product_.bias ? product_.bias.column_slice(column, columns) : Matrix();
  for (std::int64_t row = 0; row < rows.count; row += kFinishRows) {
    BlockProduct part = block;
    part.a = static_cast<const std::byte*>(block.a) + row * block.a_stride * size_of(dtype_);
    part.rows = std::min(kFinishRows, rows.count - row);
    part.out = buffer.data();
    part.out_stride = kPanelColumns;
    if (partial_ != nullptr) {
      part.out_stride = panel_count(std::min(column_chunk_, n_)) * kPanelColumns;
      part.out = partial_ + (rows.first + row) * part.out_stride + partial_column;
      part.accumulate = !first;
    }
    block_product_(part);
    if (!last && !direct_) continue;
    finish_block({part.out, DType::fp32, part.rows, columns, part.out_stride}, bias, accumulate,
                 out.row_slice(rows.first + row, part.rows).column_slice(column, columns));
  }
}

}  // namespace

void matmul_on_cpu(CpuContext& context, const Product& product) { Multiplication(context, product).run(); }

}  // namespace strata
