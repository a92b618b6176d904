// Products whose operands are rounded to FP8's e4m3. If the GPU has products of FP8 and takes the sizes,
// cuBLASLt computes them with sums in fp32. Else the rounded operands are multiplied as numbers of bf16,
// which means the same and is slower. As in matmul.h the same problem gives the same bits.
#pragma once

#include <map>
#include <optional>

#include "engine/device/cuda/matmul.h"
#include "engine/device/product_calls.h"
#include "engine/device/slow_paths.h"

namespace strata {

struct E4m3Area;

/// One thread at a time, with the device current, for products of one stream.
class CudaFloat8Product {
 public:
  /// Uses the workspace of `matmul`, and says in `slow_paths` what is not multiplied in FP8. Both outlive
  /// this object.
  CudaFloat8Product(int device, CudaMatmul& matmul, SlowPaths& slow_paths);

  /// REQUIRES: product.rounding is e4m3.
  void multiply(const CudaContext& context, const Product& product);

  /// What cuBLASLt computes of such a product: one of codes, or of rounded operands; nothing if there is
  /// nothing to multiply. Its operands are somewhere, aligned as scratch is.
  std::optional<Product> in_library(const Product& product);

 private:
  /// With the bias in place, if cuBLASLt does not add it.
  static bool adds_bias(const Product& product);
  /// Whether such a product of codes is multiplied in FP8. If not, that has been said.
  bool is_in_float8(const Product& of_codes);
  bool find_whether_in_float8(const Product& of_codes);

  CudaMatmul& matmul_;
  SlowPaths& slow_paths_;
  bool has_float8_ = false, said_sizes_ = false;
  std::map<ColumnMajorProduct, bool> in_float8_;
};

}  // namespace strata
