#include "engine/device/cuda/matmul.h"

#include <bit>
#include <cassert>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "engine/device/activation_calls.h"
#include "engine/device/cuda/addend_copy.h"
#include "engine/device/cuda/bias.h"
#include "engine/device/cuda/cublas_lt_problem.h"
#include "engine/device/cuda/cuda_error.h"
#include "engine/device/cuda/scratch_rules.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/product_calls.h"

namespace strata {
namespace {

Bytes workspace_bytes_for(int device) {
  int major = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "the GPU's properties cannot be read");
  return major >= 9 ? kHopperWorkspaceBytes : kWorkspaceBytes;
}

/// Whether cuBLASLt's GELU is the activation, as it writes it: beside a sum whose rows begin at multiples of
/// 16 bytes. In fp32 it is less exact than our own.
bool has_gelu_of_library(const Product& product) {
  constexpr std::int64_t kElements = 8;
  constexpr int kBytes = 16;
  return product.activation == Activation::gelu_tanh && product.out.dtype != DType::fp32 &&
         product.activated.dtype == product.out.dtype && product.out.stride % kElements == 0 &&
         known_alignment(product.out.data) >= kBytes;
}

/// The layout of an operand whose first `rows` × `columns` enter the product.
cublasLtMatrixLayoutOpaque_t layout(const ColumnMajorProduct::Operand& operand, std::int64_t rows,
                                    std::int64_t columns, bool is_code = false) {
  if (operand.transpose) std::swap(rows, columns);
  return matrix_layout(is_code ? CUDA_R_8F_E4M3 : type_of(operand.dtype), rows, columns, operand.leading);
}

}  // namespace

struct CudaMatmul::Plan {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t left, right, added, out;
  /// Nothing: cuBLASLt does not add the bias in this product, or apply the activation, or multiply these
  /// codes.
  std::optional<MatmulAlgorithm> algorithm = {};
};

CudaMatmul::CudaMatmul(int device, const MatmulAlgorithms& chosen)
    : chosen_(chosen), workspace_(device, workspace_bytes_for(device)) {
  static_assert(sizeof(MatmulAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
  check_cublas(cublas_lt().create(&handle_), "cuBLASLt cannot be used");
}

CudaMatmul::~CudaMatmul() {
  cublas_lt().destroy(handle_);
}

void CudaMatmul::multiply(const CudaContext& context, const Product& product) {
  assert(product.a.dtype == product.b.dtype);
  if (product.out.elements() == 0) return;
  if (const Bytes copy = addend_copy_bytes(product); copy > 0) {
    const Product adding = adding_copy(product, context.scratch.at_least(copy));
    run_on_cuda(context, Cast{product.out, adding.addend});
    return multiply(context, adding);
  }
  const std::optional<Product> part = in_library(product);
  if (!part || static_cast<bool>(part->bias) != static_cast<bool>(product.bias))
    write_what_is_added(context, product);
  if (part) {
    Plan& plan = plan_for(column_major(*part));
    check_cublas(static_cast<cublasStatus_t>(start(context.stream, *part, plan, plan.algorithm.value(), {})),
                 "a matrix product could not be started");
  }
  if (product.activated && !(part && part->activated))
    run_on_cuda(context, ActivationForward{product.activation, product.out, product.activated});
}

bool CudaMatmul::has_algorithm(const Product& product) {
  return (!product.bias || product.bias.dtype == product.out.dtype) &&
         plan_for(column_major(product)).algorithm.has_value();
}

void CudaMatmul::multiply_codes(const CudaContext& context, const Product& product,
                                const CodeScales& scales) {
  Plan& plan = plan_for(column_major(product));
  check_cublas(
      static_cast<cublasStatus_t>(start(context.stream, product, plan, plan.algorithm.value(), scales)),
      "a matrix product could not be started");
}

void CudaMatmul::write_what_is_added(const CudaContext& context, const Product& product) {
  if (product.addend) run_on_cuda(context, Cast{product.addend, product.out});
  const bool holds = product.accumulate || product.addend;
  if (product.bias) {
    add_bias_on_cuda(context, product.bias, product.out, holds);
  } else if (!holds) {
    run_on_cuda(context, Zero{product.out});
  }
}

std::optional<Product> CudaMatmul::in_library(const Product& product) {
  const std::int64_t depth = product.transpose_a ? product.a.rows : product.a.columns;
  if (product.out.elements() == 0 || depth == 0) return std::nullopt;
  if (addend_copy_bytes(product) > 0) return in_library(adding_copy(product, kSomewhere));
  if (product.activated && !(has_gelu_of_library(product) && has_algorithm(product)))
    return in_library(without_activation(product));
  if (!product.bias) return product;
  if (has_algorithm(product)) return product;
  Product rest = product;
  rest.bias = rest.addend = {};
  rest.accumulate = true;
  return rest;
}

CudaMatmul::Plan& CudaMatmul::plan_for(const ColumnMajorProduct& problem) {
  std::unique_ptr<Plan>& known = plans_[problem];
  if (known) return *known;
  auto plan = std::make_unique<Plan>(
      Plan{.operation = operation_of(problem),
           .left = layout(problem.left, problem.rows, problem.depth, problem.of_codes),
           .right = layout(problem.right, problem.depth, problem.columns, problem.of_codes),
           .added = layout(problem.added_to(), problem.rows, problem.columns),
           .out = layout(problem.out, problem.rows, problem.columns)});
  if (const auto found = chosen_.find(problem); found != chosen_.end()) {
    plan->algorithm = found->second;
  } else if (const std::vector<MatmulAlgorithm> first = proposals(problem, *plan, 1); !first.empty()) {
    plan->algorithm = first.front();
  }
  known = std::move(plan);
  return *known;
}

std::vector<MatmulAlgorithm> CudaMatmul::proposals(const ColumnMajorProduct& problem, int most) {
  return proposals(problem, plan_for(problem), most);
}

std::vector<MatmulAlgorithm> CudaMatmul::proposals(const ColumnMajorProduct& problem, Plan& plan, int most) {
  cublasLtMatmulPreferenceOpaque_t preference = preference_for(problem, workspace_.size());
  auto results = sized<std::vector<cublasLtMatmulHeuristicResult_t>>(most);
  int count = 0;
  const cublasStatus_t status =
      cublas_lt().algorithms(handle_, &plan.operation, &plan.left, &plan.right, &plan.added, &plan.out,
                             &preference, most, results.data(), &count);
  cudaGetLastError();  // what cuBLASLt tried in vain is no failure of what comes next
  std::vector<MatmulAlgorithm> algorithms;
  if (status == CUBLAS_STATUS_SUCCESS) {
    resize(results, count);
    for (const cublasLtMatmulHeuristicResult_t& result : results)
      if (result.state == CUBLAS_STATUS_SUCCESS)
        algorithms.push_back(std::bit_cast<MatmulAlgorithm>(result.algo));
  }
  if (!algorithms.empty()) return algorithms;
  const bool is_unsupported = status == CUBLAS_STATUS_SUCCESS || status == CUBLAS_STATUS_NOT_SUPPORTED ||
                              status == CUBLAS_STATUS_INVALID_VALUE || status == CUBLAS_STATUS_ARCH_MISMATCH;
  if (!is_unsupported) check_cublas(status, "an algorithm for a matrix product cannot be chosen");
  // Such products have another way.
  if (problem.bias_alignment == 0 && problem.sum.alignment == 0 && !problem.of_codes)
    throw DeviceError("cuBLASLt has no algorithm for " + describe(problem));
  return algorithms;
}

bool CudaMatmul::takes(const ColumnMajorProduct& problem, const MatmulAlgorithm& algorithm) {
  Plan& plan = plan_for(problem);
  const auto opaque = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublas_lt().check_algorithm(handle_, &plan.operation, &plan.left, &plan.right,
                                                            &plan.added, &plan.out, &opaque, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<std::size_t>(workspace_.size());
}

bool CudaMatmul::multiply_by(CUstream_st* stream, const Product& product, const MatmulAlgorithm& algorithm,
                             const CodeScales& scales) {
  return start(stream, product, plan_for(column_major(product)), algorithm, scales) == CUBLAS_STATUS_SUCCESS;
}

int CudaMatmul::start(CUstream_st* stream, const Product& product, Plan& plan,
                      const MatmulAlgorithm& algorithm, const CodeScales& scales) {
  if (product.rounding == Rounding::e4m3) {  // b is the left operand
    set(plan.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales.b);
    set(plan.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales.a);
  }
  if (product.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias.data);
  if (product.activated) set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.out.data);
  const float one = 1;
  const Matrix& out = product.activated ? product.activated : product.out;
  const Matrix& added = product.addend ? product.addend : out;
  const float beta = product.accumulate || product.addend ? 1 : 0;
  const auto opaque = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  return cublas_lt().multiply(handle_, &plan.operation, &one, product.b.data, &plan.left, product.a.data,
                              &plan.right, &beta, added.data, &plan.added, out.data, &plan.out, &opaque,
                              workspace_.data(), static_cast<std::size_t>(workspace_.size()), stream);
}

}  // namespace strata
