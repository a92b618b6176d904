#include "engine/device/cuda/bias.h"

#include <algorithm>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"

namespace strata {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocksDown = 65535;

/// A thread adds `run` neighbouring columns of some rows.
template <int run, typename Bias, typename Out>
__global__ void __launch_bounds__(kThreads)
    add_bias(const Bias* bias, Rows<Out> out, std::int64_t rows, std::int64_t columns, bool accumulate) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * run;
  if (column >= columns) return;
  float addends[run];
  to_floats(load_run<run>(bias + column), addends);
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float values[run] = {};
    if (accumulate) to_floats(load_run<run>(out.row(row) + column), values);
#pragma unroll
    for (int i = 0; i < run; ++i) values[i] = accumulate ? values[i] + addends[i] : addends[i];
    store_run(from_floats<Out>(values), out.row(row) + column);
  }
}

template <typename Bias, typename Out>
void launch_add_bias(const CudaContext& context, const Matrix& bias, const Matrix& out, bool accumulate) {
  const auto bias_rows = rows_of<const Bias>(bias);
  const auto out_rows = rows_of<Out>(out);
  const auto enqueue = [&](auto run) {
    const dim3 grid(static_cast<unsigned>(divide_rounding_up(out.columns, kThreads * run())),
                    static_cast<unsigned>(std::min(out.rows, kMostBlocksDown)));
    launch(add_bias<run(), Bias, Out>, grid, dim3(kThreads), 0, context.stream, bias_rows.data, out_rows,
           out.rows, out.columns, accumulate);
  };
  with_run<16 / std::max(sizeof(Bias), sizeof(Out))>(out.columns, enqueue,
                                                     Rows<const Bias>{bias_rows.data, 0}, out_rows);
}

}  // namespace

void add_bias_on_cuda(const CudaContext& context, const Matrix& bias, const Matrix& out, bool accumulate) {
  if (out.elements() == 0) return;
  with_storage_type(bias.dtype, [&](auto of_bias) {
    with_storage_type(out.dtype, [&](auto of_out) {
      launch_add_bias<decltype(of_bias), decltype(of_out)>(context, bias, out, accumulate);
    });
  });
}

}  // namespace strata
