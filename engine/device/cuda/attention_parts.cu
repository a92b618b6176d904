#include "engine/device/cuda/attention_parts.h"

#include <algorithm>

#include "base/storage_type.h"
#include "engine/device/cuda/launch.cuh"

namespace strata {
namespace {

constexpr int kSumThreads = 256;
constexpr std::int64_t kMostSumBlocks = 65535;

template <typename T>
__global__ void sum_parts(const T* parts, std::int64_t parts_stride, std::int64_t count, T* out,
                          std::int64_t out_stride, std::int64_t rows, std::int64_t columns) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kSumThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kSumThreads + threadIdx.x; i < rows * columns;
       i += step) {
    const std::int64_t row = i / columns, column = i % columns;
    float sum = 0;
    for (std::int64_t part = 0; part < count; ++part)
      sum += static_cast<float>(parts[row * parts_stride + part * columns + column]);
    out[row * out_stride + column] = static_cast<T>(sum);
  }
}

}  // namespace

HeadGradients head_gradients(const AttentionBackward& call, const AttentionChunk& chunk, std::byte* memory) {
  const Bytes half = head_gradient_bytes(call.shape, chunk) / 2;
  if (half == 0) return {};
  const std::int64_t columns = parts_of_group(call.shape, chunk) * call.shape.head_dimension;
  return {.key = Matrix(memory, call.key_gradient.dtype, call.shape.sequence, columns),
          .value = Matrix(memory + half, call.value_gradient.dtype, call.shape.sequence, columns)};
}

void sum_parts_on_cuda(const CudaContext& context, const Matrix& parts, const Matrix& out) {
  if (out.elements() == 0) return;
  const std::int64_t blocks = (out.elements() + kSumThreads - 1) / kSumThreads;
  with_storage_type(out.dtype, [&](auto element) {
    using T = decltype(element);
    launch(sum_parts<T>, dim3(static_cast<unsigned>(std::min(blocks, kMostSumBlocks))), dim3(kSumThreads), 0,
           context.stream, static_cast<const T*>(parts.data), parts.stride, parts.columns / out.columns,
           static_cast<T*>(out.data), out.stride, out.rows, out.columns);
  });
}

}  // namespace strata
