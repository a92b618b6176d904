#include "engine/run/execute/largest_products.h"

#include <algorithm>
#include <functional>
#include <set>
#include <variant>

#include "engine/device/product_calls.h"
#include "engine/model/model.h"
#include "engine/plan/lower/run_scratch.h"

namespace strata {
namespace {

/// Kernels that compute nothing and keep the shapes of the products that they get.
class ShapeList final : public Kernels {
 public:
  void run(const KernelCall& call) override {
    const auto* product = call.as<Product>();
    if (product == nullptr) return;
    shapes_.insert({.m = product->out.rows,
                    .n = product->out.columns,
                    .k = product->transpose_a ? product->a.rows : product->a.columns,
                    .transpose_a = product->transpose_a,
                    .transpose_b = product->transpose_b,
                    .operands = product->a.dtype,
                    .out = product->out.dtype,
                    .rounding = product->rounding});
  }
  const std::set<ProductShape>& shapes() const { return shapes_; }

 private:
  std::set<ProductShape> shapes_;
};

}  // namespace

double ProductShape::flops() const {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

std::vector<ProductShape> largest_products(std::span<const ProductsOf> models, std::size_t count,
                                           Bytes most) {
  ShapeList list;
  for (const ProductsOf& of : models) make_calls(list, of.model, of.precision, of.microbatch);
  std::vector<ProductShape> shapes(list.shapes().begin(), list.shapes().end());
  std::erase_if(shapes, [&](const ProductShape& shape) {
    return shape.a_bytes() + shape.b_bytes() + shape.out_bytes() > most;
  });
  std::ranges::stable_sort(shapes, std::greater(), &ProductShape::flops);
  shapes.resize(std::min(shapes.size(), count));
  return shapes;
}

}  // namespace strata
