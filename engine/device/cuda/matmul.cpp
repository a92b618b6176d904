#include "engine/device/cuda/matmul.h"

#include <cublasLt.h>

#include <array>
#include <cassert>

#include "base/error.h"
#include "engine/device/cuda/bias.h"
#include "engine/device/cuda/cublas_lt_set.h"
#include "engine/device/cuda/cuda_error.h"
#include "engine/device/cuda/scratch_rules.h"

namespace strata {
namespace {

Bytes workspace_bytes_for(int device) {
  int major = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "the GPU's properties cannot be read");
  return major >= 9 ? kHopperWorkspaceBytes : kWorkspaceBytes;
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

/// The layout of an operand of which rows × columns enter the product.
cublasLtMatrixLayoutOpaque_t layout(const ColumnMajorProduct::Operand& operand, std::int64_t rows,
                                    std::int64_t columns) {
  if (operand.transpose) std::swap(rows, columns);
  cublasLtMatrixLayoutOpaque_t result;
  check_cublas(cublasLtMatrixLayoutInit(&result, type_of(operand.dtype), static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), operand.leading),
               "a matrix could not be described");
  return result;
}

cublasLtMatmulDescOpaque_t operation_of(const ColumnMajorProduct& problem) {
  cublasLtMatmulDescOpaque_t operation;
  check_cublas(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "a matrix product could not be described");
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, problem.left.transpose ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, problem.right.transpose ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (problem.bias_alignment > 0) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(problem.out.dtype));
    // The heuristics read the alignment off the address: here one of exactly the alignment that every call
    // has.
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<std::uintptr_t>(problem.bias_alignment));
  }
  return operation;
}

cublasLtMatmulPreferenceOpaque_t preference_for(const ColumnMajorProduct& problem, Bytes workspace) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_cublas(cublasLtMatmulPreferenceInit(&preference), "a matrix product could not be described");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace));
  // Partial sums are kept in fp32 and added by a second kernel. "In place" adds in the output's dtype.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
      static_cast<std::uint32_t>(problem.left.alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      static_cast<std::uint32_t>(problem.right.alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      static_cast<std::uint32_t>(problem.out.alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
      static_cast<std::uint32_t>(problem.out.alignment));
  return preference;
}

}  // namespace

struct CudaMatmul::Plan {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t left, right, out;
  cublasLtMatmulAlgo_t algorithm;
  /// False: cuBLASLt does not add the bias in this product.
  bool found = false;
};

CudaMatmul::CudaMatmul(int device) : workspace_(device, workspace_bytes_for(device)) {
  check_cublas(cublasLtCreate(&handle_), "cuBLASLt cannot be used");
}

CudaMatmul::~CudaMatmul() {
  cublasLtDestroy(handle_);
}

void CudaMatmul::multiply(const CudaContext& context, const Product& product) {
  assert(product.a.dtype == product.b.dtype);
  if (product.out.elements() == 0) return;
  const std::int64_t depth = product.transpose_a ? product.a.rows : product.a.columns;
  const auto bias_first = [&] {
    add_bias_on_cuda(context, product.bias, product.out, product.accumulate);
    Product rest = product;
    rest.bias = {};
    rest.accumulate = true;
    multiply(context, rest);
  };
  if (depth == 0) {
    if (product.bias) return bias_first();
    if (!product.accumulate) run_on_cuda(context, Zero{product.out});
    return;
  }
  if (product.bias && product.bias.dtype != product.out.dtype) return bias_first();
  Plan& plan = plan_for(column_major(product));
  if (!plan.found) return bias_first();
  run(context, product, plan);
}

CudaMatmul::Plan& CudaMatmul::plan_for(const ColumnMajorProduct& problem) {
  std::unique_ptr<Plan>& known = plans_[problem];
  if (known) return *known;
  auto plan = std::make_unique<Plan>(Plan{.operation = operation_of(problem),
                                          .left = layout(problem.left, problem.rows, problem.depth),
                                          .right = layout(problem.right, problem.depth, problem.columns),
                                          .out = layout(problem.out, problem.rows, problem.columns),
                                          .algorithm = {}});
  cublasLtMatmulPreferenceOpaque_t preference = preference_for(problem, workspace_.size());
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, &plan->operation, &plan->left, &plan->right, &plan->out,
                                     &plan->out, &preference, 1, &result, &count);
  plan->found = status == CUBLAS_STATUS_SUCCESS && count > 0 && result.state == CUBLAS_STATUS_SUCCESS;
  plan->algorithm = result.algo;
  if (!plan->found) {
    cudaGetLastError();
    if (status != CUBLAS_STATUS_NOT_SUPPORTED)
      check_cublas(status, "an algorithm for a matrix product cannot be chosen");
    if (problem.bias_alignment == 0) {
      throw DeviceError("cuBLASLt has no algorithm for " + describe(problem));
    }
  }
  known = std::move(plan);
  return *known;
}

void CudaMatmul::run(const CudaContext& context, const Product& product, Plan& plan) {
  if (product.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias.data);
  const float one = 1;
  const float beta = product.accumulate ? 1 : 0;
  check_cublas(
      cublasLtMatmul(handle_, &plan.operation, &one, product.b.data, &plan.left, product.a.data, &plan.right,
                     &beta, product.out.data, &plan.out, product.out.data, &plan.out, &plan.algorithm,
                     workspace_.data(), static_cast<std::size_t>(workspace_.size()), context.stream),
      "a matrix product could not be started");
}

}  // namespace strata
