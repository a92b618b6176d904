// The matrix products that a run spends most of its time in, by their sizes. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/precision.h"
#include "engine/model/graph/graph_shape.h"
#include "engine/run/execute/choose_products.h"

namespace strata {

/// out[m,n] = op(a)[m,k] · op(b)[k,n], of contiguous matrices.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType operands = DType::fp32, out = DType::fp32;
  Rounding rounding = Rounding::none;
  auto operator<=>(const ProductShape&) const = default;  // NOLINT(modernize-use-nullptr)

  double flops() const;
  Bytes a_bytes() const { return m * k * size_of(operands); }
  Bytes b_bytes() const { return k * n * size_of(operands); }
  Bytes out_bytes() const { return m * n * size_of(out); }
};

/// The shapes with most FLOPs among the products that passes of `models` make, each once and at most `count`.
/// The matrices of each take at most `most` bytes together.
std::vector<ProductShape> largest_products(std::span<const ProductsOf> models, std::size_t count, Bytes most);

}  // namespace strata
