// One matrix product on the calling thread: through oneDNN, whose parallel loops would split sums differently
// for different thread counts, or on AVX2 by packed_product.h. oneDNN is known to this file only. Any thread
// may call.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/dtype.h"

namespace strata {

/// out[m,n] = a[m,k] · b[k,n] (+ bias[n]) (+ out). Strides in elements; one of each operand's two strides
/// is 1.
struct TileProduct {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0;
  std::int64_t b_row = 0, b_column = 0;
  std::int64_t out_row = 0;
  DType dtype = DType::fp32;  ///< of a, b and bias
  DType out_dtype = DType::fp32;
  bool accumulate = false;
  bool bias = false;
  friend bool operator==(const TileProduct&, const TileProduct&) = default;
};

/// oneDNN's name of the instruction set that it uses; STRATA_VECTOR_TARGET caps it.
std::string_view matrix_product_instructions();

/// How bf16 operands are multiplied: as they are, or upcast first, if the machine has no bf16 instructions.
/// fp16 ones are always upcast. Packed products upcast while they pack.
enum class Bf16Route : std::uint8_t { native, through_fp32 };
Bf16Route bf16_route_of_this_machine();

/// Whether a product of such operands has the same bits however its output is cut into tiles.
bool bits_allow_any_tiles(DType dtype, Bf16Route route = bf16_route_of_this_machine());

/// Scratch that multiply_tile needs for this shape. Compiles the product on first use, so call it before work
/// is split.
Bytes scratch_bytes(const TileProduct& product, Bf16Route route = bf16_route_of_this_machine());

/// `bias` is null if the product has none. `scratch` belongs to the calling thread.
void multiply_tile(const TileProduct& product, const void* a, const void* b, void* out, const void* bias,
                   std::byte* scratch, Bf16Route route = bf16_route_of_this_machine());

}  // namespace strata
