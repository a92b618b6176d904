#include "engine/device/cuda/float8_product.h"

#include <fmt/format.h>

#include "engine/device/activation_calls.h"
#include "engine/device/cuda/addend_copy.h"
#include "engine/device/cuda/bias.h"
#include "engine/device/cuda/cuda_error.h"
#include "engine/device/cuda/e4m3.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/product_calls.h"

namespace strata {
namespace {

/// cuBLASLt wants sizes, strides and addresses of products of FP8 to be multiples of this, in bytes.
constexpr std::int64_t kFloat8Unit = 16;

/// Its operands where their codes lie in the area.
Product of_codes(Product product, const E4m3Area& area) {
  product.a.data = area.a;
  product.b.data = area.b;
  return product;
}

/// Its operands rounded, in the area, without gaps.
Product of_rounded(Product product, const E4m3Area& area) {
  product.rounding = Rounding::none;
  product.a = {area.a, product.a.dtype, product.a.rows, product.a.columns};
  product.b = {area.b, product.b.dtype, product.b.rows, product.b.columns};
  return product;
}

/// A product whose bias cuBLASLt does not add, behind that.
Product without_bias(Product product) {
  product.bias = product.addend = {};
  product.accumulate = true;
  return product;
}

bool has_good_sizes(const ColumnMajorProduct& problem) {
  const auto is_good = [](const ColumnMajorProduct::Operand& operand) {
    return operand.leading * size_of(operand.dtype) % kFloat8Unit == 0 && operand.alignment >= kFloat8Unit;
  };
  return problem.rows % kFloat8Unit == 0 && problem.columns % kFloat8Unit == 0 &&
         problem.depth % kFloat8Unit == 0 && is_good(problem.out) && is_good(problem.added_to()) &&
         (problem.bias_alignment == 0 || problem.bias_alignment >= kFloat8Unit);
}

}  // namespace

CudaFloat8Product::CudaFloat8Product(int device, CudaMatmul& matmul, SlowPaths& slow_paths)
    : matmul_(matmul), slow_paths_(slow_paths) {
  int major = 0, minor = 0;
  constexpr const char* kWhat = "the GPU's properties cannot be read";
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), kWhat);
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), kWhat);
  constexpr int kAda = 89;
  has_float8_ = 10 * major + minor >= kAda;
}

bool CudaFloat8Product::adds_bias(const Product& product) {
  return !product.bias || product.bias.dtype == product.out.dtype;
}

void CudaFloat8Product::multiply(const CudaContext& context, const Product& product) {
  if (product.out.elements() == 0 || product.a.elements() == 0) {
    Product nothing = product;
    nothing.rounding = Rounding::none;
    return matmul_.multiply(context, nothing);
  }
  if (!adds_bias(product)) {
    if (product.addend) run_on_cuda(context, Cast{product.addend, product.out});
    add_bias_on_cuda(context, product.bias, product.out, product.accumulate || product.addend);
    return multiply(context, without_bias(product));
  }
  if (product.activated) {
    multiply(context, without_activation(product));
    return run_on_cuda(context, ActivationForward{product.activation, product.out, product.activated});
  }
  const E4m3Area area(product, context.scratch.at_least(scratch_on_cuda(product)));
  const Product adding = adding_copy(product, area.addend);
  if (addend_copy_bytes(product) > 0) run_on_cuda(context, Cast{product.out, adding.addend});
  const Product coded = of_codes(adding, area);
  const bool in_float8 = is_in_float8(coded);
  find_e4m3_scales(context, product, area);
  if (in_float8) {
    encode_as_e4m3(context, product.a, product.transpose_a, area.scales, coded.a.row<std::uint8_t>(0));
    encode_as_e4m3(context, product.b, !product.transpose_b, area.scales + 1, coded.b.row<std::uint8_t>(0));
    return matmul_.multiply_codes(context, coded, area.inverses);
  }
  const Product rounded = of_rounded(adding, area);
  round_to_e4m3(context, product.a, area.scales, rounded.a);
  round_to_e4m3(context, product.b, area.scales + 1, rounded.b);
  matmul_.multiply(context, rounded);
}

std::optional<Product> CudaFloat8Product::in_library(const Product& product) {
  if (product.out.elements() == 0 || product.a.elements() == 0) return std::nullopt;
  const Product whole = without_activation(adds_bias(product) ? product : without_bias(product));
  const E4m3Area area(whole, kSomewhere);
  const Product adding = adding_copy(whole, area.addend);
  const Product coded = of_codes(adding, area);
  return is_in_float8(coded) ? coded : matmul_.in_library(of_rounded(adding, area));
}

bool CudaFloat8Product::is_in_float8(const Product& of_codes) {
  const ColumnMajorProduct problem = column_major(of_codes);
  const auto known = in_float8_.find(problem);
  if (known != in_float8_.end()) return known->second;
  return in_float8_.emplace(problem, find_whether_in_float8(of_codes)).first->second;
}

bool CudaFloat8Product::find_whether_in_float8(const Product& of_codes) {
  if (!has_float8_) {
    slow_paths_.add(
        "this GPU multiplies no FP8, as those of compute capability 8.9 and later do: train.precision fp8 "
        "rounds operands and multiplies them in bf16; train.precision bf16 is faster here");
    return false;
  }
  const ColumnMajorProduct problem = column_major(of_codes);
  if (!has_good_sizes(problem)) {
    if (!said_sizes_) {
      slow_paths_.add(fmt::format(
          "{}, and others with sizes that are no multiples of {}, are not multiplied in FP8: their "
          "operands are rounded and multiplied in bf16",
          describe(problem), kFloat8Unit));
    }
    said_sizes_ = true;
    return false;
  }
  if (matmul_.has_algorithm(of_codes)) return true;
  slow_paths_.add(
      fmt::format("cuBLASLt has no algorithm in FP8 for {}: its operands are rounded and multiplied in bf16",
                  describe(problem)));
  return false;
}

}  // namespace strata
