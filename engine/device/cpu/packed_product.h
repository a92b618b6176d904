// A matrix product on the calling thread from operands that are packed in the order in which they are read.
// For processors that fuse a·b + c but have no AVX-512. There oneDNN emulates bf16, and packs large tiles
// only: a transposed first operand costs a quarter of the rate. Here packing widens 16-bit elements to fp32,
// so all precisions run at one rate. An element's sum runs over ascending depth in stretches of fixed length,
// whatever the tile's edges are. Any thread may call.
#pragma once

#include "base/bytes.h"
#include "engine/device/cpu/tile_product.h"

namespace strata {

/// Whether this machine is one of those.
bool packed_products_are_fastest();

/// Scratch of multiply_packed: a bounded part of the operands, and fp32 sums of a 16-bit output.
Bytes packed_scratch_bytes(const TileProduct& product);

/// As multiply_tile.
void multiply_packed(const TileProduct& product, const void* a, const void* b, void* out, const void* bias,
                     std::byte* scratch);

}  // namespace strata
