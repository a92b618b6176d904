// Kernels that know a number for each column: a thread computes a run of neighbouring columns in some rows.
#include <algorithm>
#include <cstdint>

#include "base/dropout.h"
#include "base/storage_type.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/elementwise_calls.h"
#include "engine/device/product_calls.h"

namespace strata {
namespace {

constexpr int kColumnThreads = 256;
constexpr std::int64_t kMostColumnBlocksDown = 65535;

template <int run, typename T>
__global__ void __launch_bounds__(kColumnThreads)
    scale_columns(Rows<const T> x, const float* factors, const T* bias, const float* row_factors, Rows<T> out,
                  std::int64_t rows, std::int64_t columns) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * kColumnThreads + threadIdx.x) * run;
  if (column >= columns) return;
  float addends[run] = {};
  if (bias != nullptr) to_floats(load_run<run>(bias + column), addends);
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const float of_row = row_factors == nullptr ? 1.0F : row_factors[row];
    float values[run];
    to_floats(load_run<run>(x.row(row) + column), values);
#pragma unroll
    for (int i = 0; i < run; ++i) {
      const float factor = factors == nullptr ? 1.0F : factors[column + i];
      values[i] = (values[i] * factor + addends[i]) * of_row;
    }
    store_run(from_floats<T>(values), out.row(row) + column);
  }
}

template <typename T>
__global__ void __launch_bounds__(kColumnThreads)
    magnitude_factors(const float* squares, const float* dots, const T* magnitudes, std::int64_t outputs,
                      float* reciprocal_norms, float* factors) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  if (i >= outputs) return;
  const float square = squares[i] + dots[i];
  const float reciprocal = square > 0 ? 1.0F / sqrtf(square) : 0.0F;
  reciprocal_norms[i] = reciprocal;
  factors[i] = to_float(magnitudes[i]) * reciprocal;
}

struct DroppedRows {
  const std::int32_t* keys;
  std::uint32_t site;
  std::int64_t first_column;
  std::uint32_t threshold;
  float factor;
  std::int64_t rows, columns;
};

template <int run, typename T>
__global__ void __launch_bounds__(kColumnThreads)
    drop_elements(Rows<const T> x, DroppedRows dropped, Rows<T> out) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * kColumnThreads + threadIdx.x) * run;
  if (column >= dropped.columns) return;
  for (std::int64_t row = blockIdx.y; row < dropped.rows; row += gridDim.y) {
    const std::int32_t key = dropped.keys[row];
    const bool keeps_all = key == kWithoutDropout;
    const std::uint32_t of_row = dropout_row(key, dropped.site);
    const float factor = keeps_all ? 1.0F : dropped.factor;
    const std::uint32_t threshold = keeps_all ? 0 : dropped.threshold;
    float values[run];
    to_floats(load_run<run>(x.row(row) + column), values);
#pragma unroll
    for (int i = 0; i < run; ++i) {
      const bool kept = is_kept(of_row, dropped.first_column + column + i, threshold);
      values[i] = kept ? values[i] * factor : 0.0F;
    }
    store_run(from_floats<T>(values), out.row(row) + column);
  }
}

template <int run>
dim3 column_blocks(std::int64_t rows, std::int64_t columns) {
  return dim3(static_cast<unsigned>(divide_rounding_up(columns, kColumnThreads * run)),
              static_cast<unsigned>(std::min(rows, kMostColumnBlocksDown)));
}

}  // namespace

void run_on_cuda(const CudaContext& context, const ColumnScale& call) {
  if (call.x.elements() == 0) return;
  with_storage_type(call.x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto x = rows_of<const T>(call.x);
    const auto out = rows_of<T>(call.out);
    const Rows<const T> bias{rows_of<const T>(call.bias).data, 0};
    const auto enqueue = [&](auto run) {
      launch(scale_columns<run(), T>, column_blocks<run()>(call.x.rows, call.x.columns), dim3(kColumnThreads),
             0, context.stream, x, rows_of<const float>(call.factors).data, bias.data,
             rows_of<const float>(call.row_factors).data, out, call.x.rows, call.x.columns);
    };
    with_run<16 / sizeof(T)>(call.x.columns, enqueue, x, bias, out);
  });
}

void run_on_cuda(const CudaContext& context, const MagnitudeFactors& call) {
  const std::int64_t outputs = call.magnitudes.columns;
  if (outputs == 0) return;
  with_storage_type(call.magnitudes.dtype, [&](auto element) {
    using T = decltype(element);
    launch(magnitude_factors<T>, dim3(static_cast<unsigned>(divide_rounding_up(outputs, kColumnThreads))),
           dim3(kColumnThreads), 0, context.stream, call.squares.row<const float>(0),
           call.dots.row<const float>(0), call.magnitudes.row<const T>(0), outputs,
           call.reciprocal_norms.row<float>(0), call.factors.row<float>(0));
  });
}

void run_on_cuda(const CudaContext& context, const Dropout& call) {
  if (call.x.elements() == 0) return;
  const DroppedRows dropped = {.keys = call.keys.data(),
                               .site = call.site,
                               .first_column = call.first_column,
                               .threshold = dropout_threshold(call.probability),
                               .factor = dropout_factor(call.probability),
                               .rows = call.x.rows,
                               .columns = call.x.columns};
  with_storage_type(call.x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto x = rows_of<const T>(call.x);
    const auto out = rows_of<T>(call.out);
    const auto enqueue = [&](auto run) {
      launch(drop_elements<run(), T>, column_blocks<run()>(call.x.rows, call.x.columns), dim3(kColumnThreads),
             0, context.stream, x, dropped, out);
    };
    with_run<16 / sizeof(T)>(call.x.columns, enqueue, x, out);
  });
}

}  // namespace strata
