// A product's operands rounded to FP8's e4m3 on a GPU: the scale of each, from its largest finite magnitude,
// and its numbers, as codes for cuBLASLt or, where that multiplies none, as numbers of bf16. A maximum has no
// order, so bits depend on none. Codes of parameters that travel as those are in e4m3.cu, too.
#pragma once

#include <cstdint>

#include "base/float8.h"
#include "engine/device/cuda/code_scales.h"
#include "engine/device/cuda/context.h"
#include "engine/device/product_calls.h"

namespace strata {

/// Where all of it lies in scratch.
struct E4m3Area {
  /// With a null base it only says how much that is.
  E4m3Area(const Product& product, std::byte* base);

  std::uint32_t* largest;  ///< by operand and block of the kernel that looks for it
  Float8Factors* scales;   ///< of a and b
  CodeScales inverses;     ///< the scales' inverses, where cuBLASLt reads them
  std::byte *a, *b;        ///< room for each operand in bf16
  std::byte* addend;       ///< and for a copy of the output (addend_copy.h)
  Bytes bytes;
};

/// Writes the scales of a and b to area.scales and area.inverses.
void find_e4m3_scales(const CudaContext& context, const Product& product, const E4m3Area& area);

/// to = what a product has instead of x. Both bf16.
void round_to_e4m3(const CudaContext& context, const Matrix& x, const Float8Factors* scale, const Matrix& to);

/// The codes of x[rows, columns], row by row without gaps; transposed those of its columns, one after
/// another. REQUIRES: rows that lie one after another are multiples of 16 long, and so are the others if
/// transposed.
void encode_as_e4m3(const CudaContext& context, const Matrix& x, bool transposed, const Float8Factors* scale,
                    std::uint8_t* codes);

}  // namespace strata
