// Products that add to 16-bit numbers in place. cuBLASLt rounds such a product before it adds it (13.0 on an
// H200). If what it adds lies elsewhere, it rounds the sum alone. In place there is one error more, and bits
// would depend on where a plan places an output. So a copy of the output is added. .cu files include it.
#pragma once

#include "engine/device/kernels.h"
#include "engine/device/product_calls.h"

namespace strata {

/// Counts the bytes of the copy; none if the product adds nothing, or to fp32, or what lies elsewhere.
inline Bytes addend_copy_bytes(const Product& product) {
  const bool is_exact = !product.accumulate || product.out.dtype == DType::fp32;
  return is_exact ? 0 : align_up(product.out.rows * product.out.stride * size_of(product.out.dtype));
}

/// The product that adds the copy, which lies in `memory` with the strides of the output; the product itself
/// if it needs none.
inline Product adding_copy(Product product, std::byte* memory) {
  if (addend_copy_bytes(product) == 0) return product;
  product.accumulate = false;
  product.addend = product.out;
  product.addend.data = memory;
  return product;
}

}  // namespace strata
