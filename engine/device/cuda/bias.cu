#include "engine/device/cuda/bias.h"

#include <algorithm>

#include "engine/device/cuda/launch.cuh"

namespace strata {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocksDown = 65535;

template <typename Bias, typename Out>
__global__ void add_bias(const Bias* bias, Out* out, std::int64_t rows, std::int64_t columns,
                         std::int64_t stride, bool accumulate) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= columns) return;
  const float addend = static_cast<float>(bias[column]);
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    Out& value = out[row * stride + column];
    value = static_cast<Out>(accumulate ? static_cast<float>(value) + addend : addend);
  }
}

template <typename Bias, typename Out>
void launch_add_bias(const CudaContext& context, const Matrix& bias, const Matrix& out, bool accumulate) {
  const dim3 grid(static_cast<unsigned>((out.columns + kThreads - 1) / kThreads),
                  static_cast<unsigned>(std::min(out.rows, kMostBlocksDown)));
  launch(add_bias<Bias, Out>, grid, dim3(kThreads), 0, context.stream, bias.row<Bias>(0), out.row<Out>(0),
         out.rows, out.columns, out.stride, accumulate);
}

template <typename Bias>
void add_typed_bias(const CudaContext& context, const Matrix& bias, const Matrix& out, bool accumulate) {
  switch (out.dtype) {
    case DType::fp32:
      return launch_add_bias<Bias, float>(context, bias, out, accumulate);
    case DType::bf16:
      return launch_add_bias<Bias, bfloat16>(context, bias, out, accumulate);
    case DType::fp16:
      return launch_add_bias<Bias, float16>(context, bias, out, accumulate);
  }
}

}  // namespace

void add_bias_on_cuda(const CudaContext& context, const Matrix& bias, const Matrix& out, bool accumulate) {
  if (out.elements() == 0) return;
  switch (bias.dtype) {
    case DType::fp32:
      return add_typed_bias<float>(context, bias, out, accumulate);
    case DType::bf16:
      return add_typed_bias<bfloat16>(context, bias, out, accumulate);
    case DType::fp16:
      return add_typed_bias<float16>(context, bias, out, accumulate);
  }
}

}  // namespace strata
