#include "engine/device/cuda/float8_product.h"

#include <fmt/format.h>

#include "engine/device/cuda/bias.h"
#include "engine/device/cuda/cublas_lt_problem.h"
#include "engine/device/cuda/e4m3.h"

namespace strata {
namespace {

/// cuBLASLt wants sizes, strides and addresses of products of FP8 to be multiples of this, in bytes.
constexpr std::int64_t kFloat8Unit = 16;

/// The problem as cuBLASLt gets it: the depth is contiguous in both operands.
ColumnMajorProduct with_codes(const Product& product) {
  ColumnMajorProduct problem = column_major(product);
  for (ColumnMajorProduct::Operand* operand : {&problem.left, &problem.right}) {
    operand->transpose = operand == &problem.left;
    operand->leading = problem.depth;
    operand->alignment = static_cast<int>(kAlignment);
  }
  return problem;
}

bool has_good_sizes(const ColumnMajorProduct& problem) {
  const auto is_good = [](const ColumnMajorProduct::Operand& operand) {
    return operand.leading * size_of(operand.dtype) % kFloat8Unit == 0 && operand.alignment >= kFloat8Unit;
  };
  return problem.rows % kFloat8Unit == 0 && problem.columns % kFloat8Unit == 0 &&
         problem.depth % kFloat8Unit == 0 && is_good(problem.out) && is_good(problem.added_to()) &&
         (problem.bias_alignment == 0 || problem.bias_alignment >= kFloat8Unit);
}

cublasLtMatmulDescOpaque_t float8_operation(const ColumnMajorProduct& problem) {
  cublasLtMatmulDescOpaque_t operation = operation_of(problem);
  // Sums are kept with all bits of fp32.
  set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{0});
  // The heuristics see whether there are addresses, and how these are aligned.
  for (const auto scale : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
    set(operation, scale, static_cast<std::uintptr_t>(alignof(Float8Factors)));
  return operation;
}

}  // namespace

struct CudaFloat8Product::Plan {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t left, right, added, out;
  cublasLtMatmulAlgo_t algorithm;
};

CudaFloat8Product::CudaFloat8Product(int device, CudaMatmul& matmul, SlowPaths& slow_paths)
    : matmul_(matmul), slow_paths_(slow_paths) {
  int major = 0, minor = 0;
  constexpr const char* kWhat = "the GPU's properties cannot be read";
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), kWhat);
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), kWhat);
  constexpr int kAda = 89;
  has_float8_ = 10 * major + minor >= kAda;
}

CudaFloat8Product::~CudaFloat8Product() = default;

void CudaFloat8Product::multiply(const CudaContext& context, const Product& product) {
  Product rest = product;
  rest.rounding = Rounding::none;
  if (product.out.elements() == 0 || product.a.elements() == 0) return matmul_.multiply(context, rest);
  if (product.bias && product.bias.dtype != product.out.dtype) {
    if (product.addend) run_on_cuda(context, Cast{product.addend, product.out});
    add_bias_on_cuda(context, product.bias, product.out, product.accumulate || product.addend);
    Product added = product;
    added.bias = added.addend = {};
    added.accumulate = true;
    return multiply(context, added);
  }
  Plan* plan = plan_for(with_codes(product));
  const E4m3Area area(product, context.scratch.at_least(scratch_on_cuda(product)));
  find_e4m3_scales(context, product, area);
  if (plan != nullptr) return run(context, product, area, *plan);
  const auto rounded = [&](const Matrix& x, const Float8Factors* scale, std::byte* to) {
    const Matrix result(to, x.dtype, x.rows, x.columns);
    round_to_e4m3(context, x, scale, result);
    return result;
  };
  rest.a = rounded(product.a, area.scales, area.a);
  rest.b = rounded(product.b, area.scales + 1, area.b);
  matmul_.multiply(context, rest);
}

CudaFloat8Product::Plan* CudaFloat8Product::plan_for(const ColumnMajorProduct& problem) {
  const auto known = plans_.find(problem);
  if (known != plans_.end()) return known->second.get();
  return plans_.emplace(problem, find_plan(problem)).first->second.get();
}

std::unique_ptr<CudaFloat8Product::Plan> CudaFloat8Product::find_plan(const ColumnMajorProduct& problem) {
  if (!has_float8_) {
    slow_paths_.add(
        "this GPU multiplies no FP8, as those of compute capability 8.9 and later do: train.precision fp8 "
        "rounds operands and multiplies them in bf16; train.precision bf16 is faster here");
    return nullptr;
  }
  if (!has_good_sizes(problem)) {
    if (!said_sizes_) {
      slow_paths_.add(fmt::format(
          "{}, and others with sizes that are no multiples of {}, are not multiplied in FP8: their "
          "operands are rounded and multiplied in bf16",
          describe(problem), kFloat8Unit));
    }
    said_sizes_ = true;
    return nullptr;
  }
  auto plan = std::make_unique<Plan>(Plan{
      .operation = float8_operation(problem),
      .left = matrix_layout(CUDA_R_8F_E4M3, problem.depth, problem.rows, problem.depth),
      .right = matrix_layout(CUDA_R_8F_E4M3, problem.depth, problem.columns, problem.depth),
      .added = matrix_layout(type_of(problem.out.dtype), problem.rows, problem.columns,
                             problem.added_to().leading),
      .out = matrix_layout(type_of(problem.out.dtype), problem.rows, problem.columns, problem.out.leading),
      .algorithm = {}});
  cublasLtMatmulPreferenceOpaque_t preference = preference_for(problem, matmul_.workspace_bytes());
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(matmul_.handle(), &plan->operation, &plan->left, &plan->right,
                                     &plan->added, &plan->out, &preference, 1, &result, &count);
  if (status == CUBLAS_STATUS_SUCCESS && count > 0 && result.state == CUBLAS_STATUS_SUCCESS) {
    plan->algorithm = result.algo;
    return plan;
  }
  cudaGetLastError();
  if (status != CUBLAS_STATUS_NOT_SUPPORTED)
    check_cublas(status, "an algorithm for a matrix product cannot be chosen");
  slow_paths_.add(
      fmt::format("cuBLASLt has no algorithm in FP8 for {}: its operands are rounded and multiplied in bf16",
                  describe(problem)));
  return nullptr;
}

void CudaFloat8Product::run(const CudaContext& context, const Product& product, const E4m3Area& area,
                            Plan& plan) {
  auto* a = reinterpret_cast<std::uint8_t*>(area.a);
  auto* b = reinterpret_cast<std::uint8_t*>(area.b);
  encode_as_e4m3(context, product.a, product.transpose_a, area.scales, a);
  encode_as_e4m3(context, product.b, !product.transpose_b, area.scales + 1, b);
  set(plan.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &area.scales[1].inverse);
  set(plan.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &area.scales[0].inverse);
  if (product.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias.data);
  const float one = 1;
  const Matrix& added = product.addend ? product.addend : product.out;
  const float beta = product.accumulate || product.addend ? 1 : 0;
  check_cublas(cublasLtMatmul(matmul_.handle(), &plan.operation, &one, b, &plan.left, a, &plan.right, &beta,
                              added.data, &plan.added, product.out.data, &plan.out, &plan.algorithm,
                              matmul_.workspace(), static_cast<std::size_t>(matmul_.workspace_bytes()),
                              context.stream),
               "a matrix product could not be started");
}

}  // namespace strata
