// Matrix products through cuBLASLt, with fp32 accumulation and no TF32, also of codes of e4m3. The algorithm
// for a problem is the one that was chosen for it (product_chooser.h), or the first of cuBLASLt's heuristics,
// which measure nothing, and is kept; it never adds with atomics. So the same problem gives the same bits.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/device/cuda/code_scales.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/cuda_memory.h"
#include "engine/device/cuda/matmul_layout.h"
#include "engine/device/product_calls.h"

struct cublasLtContext;  // what cublasLtHandle_t points to

namespace strata {

inline Product without_activation(Product product) {
  product.activated = {};
  return product;
}

/// The bytes of a cublasLtMatmulAlgo_t: they mean the same in every process that has this version of
/// cuBLASLt.
using MatmulAlgorithm = std::array<std::uint64_t, 8>;
using MatmulAlgorithms = std::map<ColumnMajorProduct, MatmulAlgorithm>;

/// Where operands lie that are asked about and not computed with: an address as aligned as a buffer's.
inline std::byte* const kSomewhere = reinterpret_cast<std::byte*>(kAlignment);

/// One thread at a time, with the device current, for products of one stream.
class CudaMatmul {
 public:
  /// `chosen` count in place of the heuristics' first, and outlive this object. An entry is there before the
  /// first product that it is for.
  CudaMatmul(int device, const MatmulAlgorithms& chosen);
  ~CudaMatmul();
  CudaMatmul(const CudaMatmul&) = delete;
  CudaMatmul& operator=(const CudaMatmul&) = delete;

  /// Adds to 16-bit outputs by way of a copy in scratch (addend_copy.h). Throws DeviceError if cuBLASLt has
  /// no algorithm.
  void multiply(const CudaContext& context, const Product& product);

  /// Whether cuBLASLt computes all of it: a bias, an activation, or products of codes may be beyond it.
  bool has_algorithm(const Product& product);
  /// Multiplies a product that rounds, whose a and b stand where their codes are: the depth of both is
  /// contiguous. REQUIRES: has_algorithm().
  void multiply_codes(const CudaContext& context, const Product& product, const CodeScales& scales);

  /// What cuBLASLt computes of a product: all of it, or all but the activation, or what is added to a bias
  /// that is already in place; nothing if there is nothing to multiply.
  std::optional<Product> in_library(const Product& product);
  /// At most `most`, the best first by cuBLASLt's heuristics. None only if it does not add the bias, apply
  /// the activation, or multiply the codes.
  std::vector<MatmulAlgorithm> proposals(const ColumnMajorProduct& problem, int most);
  /// Whether the algorithm is one for this problem, and needs no more than the workspace.
  bool takes(const ColumnMajorProduct& problem, const MatmulAlgorithm& algorithm);
  /// False if it cannot be started. `scales` count if the product is one of codes. REQUIRES: in_library() has
  /// given the product, or it is one of codes.
  bool multiply_by(CUstream_st* stream, const Product& product, const MatmulAlgorithm& algorithm,
                   const CodeScales& scales = {});

  Bytes workspace_bytes() const { return workspace_.size(); }

 private:
  struct Plan;
  /// What the product itself is added to.
  void write_what_is_added(const CudaContext& context, const Product& product);
  Plan& plan_for(const ColumnMajorProduct& problem);
  std::vector<MatmulAlgorithm> proposals(const ColumnMajorProduct& problem, Plan& plan, int most);
  /// Returns a cublasStatus_t.
  int start(CUstream_st* stream, const Product& product, Plan& plan, const MatmulAlgorithm& algorithm,
            const CodeScales& scales);

  const MatmulAlgorithms& chosen_;
  cublasLtContext* handle_ = nullptr;
  CudaMemory workspace_;
  std::map<ColumnMajorProduct, std::unique_ptr<Plan>> plans_;
};

}  // namespace strata
