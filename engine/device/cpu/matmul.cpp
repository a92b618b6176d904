// Matrix products as tiles of the output, each computed whole by one thread. Any number of threads gives the
// same bits: where bits depend on tiles, these depend on the shape alone.
// Not in a unity build: it names its tiles as another file does.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "engine/device/cpu/context.h"
#include "engine/device/cpu/e4m3.h"
#include "engine/device/cpu/tile_product.h"
#include "engine/device/product_calls.h"

namespace strata {
namespace {

/// Large enough that packing the operands costs little beside the product, small enough for two tiles to
/// share a cache.
constexpr std::int64_t kTileRows = 512;
constexpr std::int64_t kTileColumns = 768;
constexpr std::int64_t kSmallestTile = 128;
/// Tiles that keep this many threads busy, if the output is large enough.
constexpr std::int64_t kTiles = 16;
/// If bits do not depend on tiles, there are this many for each thread, and tall ones: the fewer there are,
/// the less often operands are packed.
constexpr std::int64_t kTilesPerThread = 2;
constexpr std::int64_t kTallTileRows = 2048;
/// Edges fall on multiples of this: whole vectors.
constexpr std::int64_t kTileUnit = 64;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Splits `extent` into equal parts of at most `most`, rounded up to whole units.
std::int64_t even_part(std::int64_t extent, std::int64_t most) {
  const std::int64_t part = divide_up(extent, divide_up(extent, most));
  return std::min(extent, divide_up(part, kTileUnit) * kTileUnit);
}

struct Tiling {
  std::int64_t rows, columns;
};

/// At least `least` tiles, if the output is large enough.
Tiling choose_tiling(std::int64_t m, std::int64_t n, std::int64_t most_rows, std::int64_t least) {
  Tiling tiling{even_part(m, most_rows), even_part(n, kTileColumns)};
  const auto tiles = [&] { return divide_up(m, tiling.rows) * divide_up(n, tiling.columns); };
  while (tiles() < least && std::max(tiling.rows, tiling.columns) > kSmallestTile) {
    std::int64_t& longer = tiling.rows >= tiling.columns ? tiling.rows : tiling.columns;
    longer = even_part(longer, divide_up(longer, 2));
  }
  return tiling;
}

void copy_rows(const Matrix& from, const Matrix& to) {
  const Bytes element = size_of(to.dtype);
  for (std::int64_t row = 0; row < to.rows; ++row) {
    std::memcpy(to.row_slice(row, 1).data, from.row_slice(row, 1).data,
                static_cast<std::size_t>(to.columns * element));
  }
}

/// A product and its tiles.
struct TiledProduct {
  TiledProduct(const Product& product, int threads)
      : product(product),
        m(product.out.rows),
        n(product.out.columns),
        k(product.transpose_a ? product.a.rows : product.a.columns),
        tiling(tiling_for(threads)),
        down(divide_up(m, tiling.rows)),
        across(divide_up(n, tiling.columns)) {
    assert(product.a.dtype == product.b.dtype);
    assert((product.transpose_a ? product.a.columns : product.a.rows) == m);
    assert((product.transpose_b ? product.b.rows : product.b.columns) == n);
    assert((product.transpose_b ? product.b.columns : product.b.rows) == k);
  }

  Tiling tiling_for(int threads) const {
    if (!bits_allow_any_tiles(product.a.dtype)) return choose_tiling(m, n, kTileRows, kTiles);
    // A 16-bit output takes fp32 sums of a whole tile as scratch.
    const std::int64_t most_rows = product.out.dtype == DType::fp32 ? kTallTileRows : kTileRows;
    return choose_tiling(m, n, most_rows, kTilesPerThread * threads);
  }

  TileProduct tile(std::int64_t rows, std::int64_t columns) const {
    return {.m = rows,
            .n = columns,
            .k = k,
            .a_row = product.transpose_a ? 1 : product.a.stride,
            .a_column = product.transpose_a ? product.a.stride : 1,
            .b_row = product.transpose_b ? 1 : product.b.stride,
            .b_column = product.transpose_b ? product.b.stride : 1,
            .out_row = product.out.stride,
            .dtype = product.a.dtype,
            .out_dtype = product.out.dtype,
            .accumulate = product.accumulate || product.addend,
            .bias = static_cast<bool>(product.bias)};
  }

  const Product& product;
  std::int64_t m, n, k;
  Tiling tiling;
  std::int64_t down, across;
};

/// The product that is left to do behind rounding, of operands in `area`.
struct RoundedProduct {
  RoundedProduct(const Product& product, std::byte* area) : rest(product), pieces(area) {
    rest.rounding = Rounding::none;
    for (Matrix* operand : {&rest.a, &rest.b}) {
      *operand =
          Matrix(pieces.take<bfloat16>(operand->elements()), operand->dtype, operand->rows, operand->columns);
    }
  }

  Product rest;
  Pieces pieces;
};

}  // namespace

ScratchBytes scratch_on_cpu(const Product& product, int threads) {
  if (product.rounding != Rounding::none) {
    const RoundedProduct rounded(product, nullptr);
    ScratchBytes bytes = scratch_on_cpu(rounded.rest, threads);
    bytes.shared = rounded.pieces.used();
    return bytes;
  }
  const TiledProduct tiled(product, threads);
  const std::int64_t last_rows = tiled.m - (tiled.down - 1) * tiled.tiling.rows,
                     last_columns = tiled.n - (tiled.across - 1) * tiled.tiling.columns;
  Bytes largest = 0;
  for (const std::int64_t rows : {tiled.tiling.rows, last_rows}) {
    for (const std::int64_t columns : {tiled.tiling.columns, last_columns})
      largest = std::max(largest, scratch_bytes(tiled.tile(rows, columns)));
  }
  return {.per_thread = largest};
}

void run_on_cpu(CpuContext& context, const Product& product) {
  const int threads = context.pool.threads();
  if (product.rounding != Rounding::none) {
    context.scratch.reserve(scratch_on_cpu(product, threads));
    const RoundedProduct rounded(product, context.scratch.shared());
    round_to_e4m3(context.pool, product.a, rounded.rest.a);
    round_to_e4m3(context.pool, product.b, rounded.rest.b);
    return run_on_cpu(context, rounded.rest);
  }
  const TiledProduct tiled(product, threads);
  const std::int64_t tile_rows = tiled.tiling.rows, tile_columns = tiled.tiling.columns;
  context.scratch.reserve(scratch_on_cpu(product, threads));
  context.pool.for_each(tiled.down * tiled.across, [&](std::int64_t tile, int slot) {
    const std::int64_t row = tile / tiled.across * tile_rows, column = tile % tiled.across * tile_columns;
    const std::int64_t rows = std::min(tile_rows, tiled.m - row),
                       columns = std::min(tile_columns, tiled.n - column);
    const Matrix a = product.transpose_a ? product.a.column_slice(row, rows) : product.a.row_slice(row, rows);
    const Matrix b =
        product.transpose_b ? product.b.row_slice(column, columns) : product.b.column_slice(column, columns);
    const auto part = [&](const Matrix& whole) {
      return whole.row_slice(row, rows).column_slice(column, columns);
    };
    const Matrix out = part(product.out);
    // Tiles are small: the copy is read from a cache, as is the sum behind the product.
    if (product.addend) copy_rows(part(product.addend), out);
    multiply_tile(tiled.tile(rows, columns), a.data, b.data, out.data,
                  product.bias ? product.bias.column_slice(column, columns).data : nullptr,
                  context.scratch.slot(slot));
    if (product.activated) activate_tile(product.activation, out, part(product.activated));
  });
}

}  // namespace strata
