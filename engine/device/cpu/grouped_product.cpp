// Products of groups of rows with a matrix each. How many rows a group has is data, and the library compiles
// what it computes for each shape; so a group is cut into pieces of few different lengths. Tiles and pieces
// follow from shapes and data, never from threads.
#include <algorithm>
#include <bit>
#include <cassert>

#include "engine/device/cpu/context.h"
#include "engine/device/cpu/tile_product.h"
#include "engine/device/expert_calls.h"

namespace strata {
namespace {

/// The most rows of a piece, a power of two, and the most columns and rows of an output's tile.
constexpr std::int64_t kPieceRows = 512;
constexpr std::int64_t kTileColumns = 768;
constexpr std::int64_t kTileRows = 512;

/// Rows of the first piece of `rows` rows that are left: as many as go, or the largest power of two below.
std::int64_t piece_of(std::int64_t rows, DType dtype) {
  if (rows >= kPieceRows) return kPieceRows;
  return bits_allow_any_tiles(dtype)
             ? rows
             : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows)));
}

/// Calls body(first, rows) for the pieces of rows [begin, end).
template <typename Body>
void for_pieces(std::int64_t begin, std::int64_t end, DType dtype, const Body& body) {
  while (begin < end) {
    const std::int64_t rows = piece_of(end - begin, dtype);
    body(begin, rows);
    begin += rows;
  }
}

std::int64_t pieces_of(std::int64_t rows, DType dtype) {
  std::int64_t count = 0;
  for_pieces(0, rows, dtype, [&](std::int64_t, std::int64_t) { ++count; });
  return count;
}

/// Calls body(length) for every length that a piece of at most `rows` rows may have; if pieces are not cut to
/// few lengths, for the largest.
template <typename Body>
void for_piece_lengths(std::int64_t rows, DType dtype, const Body& body) {
  std::int64_t length = piece_of(std::min(rows, kPieceRows), dtype);
  body(length);
  while (!bits_allow_any_tiles(dtype) && length > 1) body(length /= 2);
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Rows [first, first + rows) of a group.
struct Piece {
  std::int64_t group, first, rows;
};

/// Piece `index` of all, in the order of groups.
Piece find_piece(std::span<const std::int32_t> offsets, DType dtype, std::int64_t index) {
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
    const std::int64_t pieces = pieces_of(offsets[g + 1] - offsets[g], dtype);
    if (index >= pieces) {
      index -= pieces;
      continue;
    }
    Piece piece{};
    for_pieces(offsets[g], offsets[g + 1], dtype, [&](std::int64_t first, std::int64_t rows) {
      if (index-- == 0) piece = {static_cast<std::int64_t>(g), first, rows};
    });
    return piece;
  }
  return {};
}

std::int64_t groups_of(std::span<const std::int32_t> offsets) {
  return static_cast<std::int64_t>(offsets.size()) - 1;
}

TileProduct tile(const GroupedProduct& product, std::int64_t rows, std::int64_t columns) {
  return {.m = rows,
          .n = columns,
          .k = product.a.columns,
          .a_row = product.a.stride,
          .a_column = 1,
          .b_row = product.transpose_b ? 1 : product.b.stride,
          .b_column = product.transpose_b ? product.b.stride : 1,
          .out_row = product.out.stride,
          .dtype = product.a.dtype,
          .out_dtype = product.out.dtype};
}

TileProduct tile(const GroupedWeightGradient& product, std::int64_t depth, std::int64_t rows,
                 std::int64_t columns) {
  return {.m = rows,
          .n = columns,
          .k = depth,
          .a_row = 1,
          .a_column = product.a.stride,
          .b_row = product.b.stride,
          .b_column = 1,
          .out_row = product.gradient.stride,
          .dtype = product.a.dtype,
          .out_dtype = DType::fp32,
          .accumulate = true};
}

/// Calls body with the lengths that tiles of at most `most` have in `extent`: of all but the last, of the
/// last.
template <typename Body>
void for_tile_lengths(std::int64_t extent, std::int64_t most, const Body& body) {
  body(std::min(extent, most));
  if (extent > most && extent % most != 0) body(extent % most);
}

}  // namespace

ScratchBytes scratch_on_cpu(const GroupedProduct& product, int /*threads*/) {
  Bytes largest = 0;
  if (product.a.rows == 0) return {};
  for_piece_lengths(product.a.rows, product.a.dtype, [&](std::int64_t rows) {
    for_tile_lengths(product.out.columns, kTileColumns, [&](std::int64_t columns) {
      largest = std::max(largest, scratch_bytes(tile(product, rows, columns)));
    });
  });
  return {.per_thread = largest};
}

void run_on_cpu(CpuContext& context, const GroupedProduct& product) {
  const std::span<const std::int32_t> offsets = product.offsets;
  const std::int64_t across = divide_up(product.out.columns, kTileColumns);
  const std::int64_t rows_of_b = product.transpose_b ? product.out.columns : product.a.columns;
  assert(product.b.rows == groups_of(offsets) * rows_of_b);
  context.scratch.reserve(scratch_on_cpu(product, context.pool.threads()));
  std::int64_t pieces = 0;
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g)
    pieces += pieces_of(offsets[g + 1] - offsets[g], product.a.dtype);
  context.pool.for_each(pieces * across, [&](std::int64_t task, int slot) {
    const Piece piece = find_piece(offsets, product.a.dtype, task / across);
    const std::int64_t column = task % across * kTileColumns;
    const std::int64_t columns = std::min(kTileColumns, product.out.columns - column);
    const Matrix of_group = product.b.row_slice(piece.group * rows_of_b, rows_of_b);
    multiply_tile(
        tile(product, piece.rows, columns), product.a.row_slice(piece.first, piece.rows).data,
        (product.transpose_b ? of_group.row_slice(column, columns) : of_group.column_slice(column, columns))
            .data,
        product.out.row_slice(piece.first, piece.rows).column_slice(column, columns).data, nullptr,
        context.scratch.slot(slot));
  });
}

ScratchBytes scratch_on_cpu(const GroupedWeightGradient& product, int /*threads*/) {
  Bytes largest = 0;
  if (product.a.rows == 0) return {};
  for_piece_lengths(product.a.rows, product.a.dtype, [&](std::int64_t depth) {
    for_tile_lengths(product.a.columns, kTileRows, [&](std::int64_t rows) {
      for_tile_lengths(product.b.columns, kTileColumns, [&](std::int64_t columns) {
        largest = std::max(largest, scratch_bytes(tile(product, depth, rows, columns)));
      });
    });
  });
  return {.per_thread = largest};
}

/// A task is a tile of one group's gradient.
void run_on_cpu(CpuContext& context, const GroupedWeightGradient& product) {
  const std::int64_t m = product.a.columns, n = product.b.columns;
  const std::int64_t down = divide_up(m, kTileRows), across = divide_up(n, kTileColumns);
  assert(product.gradient.rows == groups_of(product.offsets) * m);
  context.scratch.reserve(scratch_on_cpu(product, context.pool.threads()));
  context.pool.for_each(groups_of(product.offsets) * down * across, [&](std::int64_t task, int slot) {
    const std::int64_t group = task / (down * across);
    const std::int64_t row = task / across % down * kTileRows, column = task % across * kTileColumns;
    const std::int64_t rows = std::min(kTileRows, m - row), columns = std::min(kTileColumns, n - column);
    const Matrix out = product.gradient.row_slice(group * m + row, rows).column_slice(column, columns);
    const auto g = static_cast<std::size_t>(group);
    for_pieces(product.offsets[g], product.offsets[g + 1], product.a.dtype,
               [&](std::int64_t first, std::int64_t depth) {
                 multiply_tile(tile(product, depth, rows, columns),
                               product.a.row_slice(first, depth).column_slice(row, rows).data,
                               product.b.row_slice(first, depth).column_slice(column, columns).data, out.data,
                               nullptr, context.scratch.slot(slot));
               });
  });
}

}  // namespace strata
