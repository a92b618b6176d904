// Matrix products through cuBLASLt, with fp32 accumulation and no TF32. The algorithm for a problem comes
// from cuBLASLt's heuristics, which measure nothing, and is kept; it never adds with atomics. So the same
// problem gives the same bits.
#pragma once

#include <map>
#include <memory>

#include "engine/device/cuda/context.h"
#include "engine/device/cuda/cuda_memory.h"
#include "engine/device/cuda/matmul_layout.h"

struct cublasLtContext;  // what cublasLtHandle_t points to

namespace strata {

/// One thread at a time, with the device current, for products of one stream.
class CudaMatmul {
 public:
  explicit CudaMatmul(int device);
  ~CudaMatmul();
  CudaMatmul(const CudaMatmul&) = delete;
  CudaMatmul& operator=(const CudaMatmul&) = delete;

  /// Throws DeviceError if cuBLASLt has no algorithm.
  void multiply(const CudaContext& context, const Product& product);

  Bytes workspace_bytes() const { return workspace_.size(); }

  // For other products on the same stream.
  cublasLtContext* handle() const { return handle_; }
  std::byte* workspace() const { return workspace_.data(); }

 private:
  struct Plan;
  Plan& plan_for(const ColumnMajorProduct& problem);
  void run(const CudaContext& context, const Product& product, Plan& plan);

  cublasLtContext* handle_ = nullptr;
  CudaMemory workspace_;
  std::map<ColumnMajorProduct, std::unique_ptr<Plan>> plans_;
};

}  // namespace strata
