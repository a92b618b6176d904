// Products whose operands are rounded to FP8's e4m3: through cuBLASLt's products of FP8, with sums in fp32,
// if the GPU has them and takes the sizes; else the rounded operands are multiplied as numbers of bf16, which
// means the same and is slower. As in matmul.h the same problem gives the same bits.
#pragma once

#include <map>
#include <memory>

#include "engine/device/cuda/matmul.h"
#include "engine/device/slow_paths.h"

namespace strata {

struct E4m3Area;

/// One thread at a time, with the device current, for products of one stream.
class CudaFloat8Product {
 public:
  /// Uses the workspace of `matmul`, and says in `slow_paths` what is not multiplied in FP8. Both outlive
  /// this object.
  CudaFloat8Product(int device, CudaMatmul& matmul, SlowPaths& slow_paths);
  ~CudaFloat8Product();

  /// REQUIRES: product.rounding is e4m3.
  void multiply(const CudaContext& context, const Product& product);

 private:
  struct Plan;
  /// Null if such a product is not multiplied in FP8.
  Plan* plan_for(const ColumnMajorProduct& problem);
  std::unique_ptr<Plan> find_plan(const ColumnMajorProduct& problem);
  void run(const CudaContext& context, const Product& product, const E4m3Area& area, Plan& plan);

  CudaMatmul& matmul_;
  SlowPaths& slow_paths_;
  bool has_float8_ = false, said_sizes_ = false;
  std::map<ColumnMajorProduct, std::unique_ptr<Plan>> plans_;
};

}  // namespace strata
