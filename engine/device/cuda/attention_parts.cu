#include "engine/device/cuda/attention_parts.h"

#include <algorithm>

#include "base/storage_type.h"
#include "engine/device/attention_calls.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"

namespace strata {
namespace {

constexpr int kSumThreads = 256;
constexpr std::int64_t kMostSumBlocks = 65535;

template <int run, typename T>
__global__ void __launch_bounds__(kSumThreads)
    sum_parts(Rows<const T> parts, std::int64_t count, Rows<T> out, std::int64_t rows, std::int64_t columns) {
  const std::int64_t step = std::int64_t{gridDim.x} * kSumThreads * run;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x) * run; i < rows * columns;
       i += step) {
    const std::int64_t row = i / columns, column = i % columns;
    float sums[run] = {};
    for (std::int64_t part = 0; part < count; ++part) {
      const auto values = load_run<run>(parts.row(row) + part * columns + column);
#pragma unroll
      for (int k = 0; k < run; ++k) sums[k] += to_float(values.values[k]);
    }
    store_run(from_floats<T>(sums), out.row(row) + column);
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
  with_storage_type(out.dtype, [&](auto element) {
    using T = decltype(element);
    const auto part_rows = rows_of<const T>(parts);
    const auto out_rows = rows_of<T>(out);
    const auto enqueue = [&](auto run) {
      const std::int64_t blocks = divide_rounding_up(out.elements(), kSumThreads * run());
      launch(sum_parts<run(), T>, dim3(static_cast<unsigned>(std::min(blocks, kMostSumBlocks))),
             dim3(kSumThreads), 0, context.stream, part_rows, parts.columns / out.columns, out_rows, out.rows,
             out.columns);
    };
    with_run<16 / sizeof(T)>(out.columns, enqueue, part_rows, out_rows);
  });
}

}  // namespace strata
