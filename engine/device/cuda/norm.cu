// LayerNorm and RMSNorm: a warp or a block per row, which keeps the row in registers, so that each operand is
// read once. Rows too long for that, and rows that 16-byte accesses don't fit, are read again for each pass.
#include <algorithm>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/cuda/norm_row.cuh"
#include "engine/device/norm_calls.h"
#include "engine/device/product_calls.h"

namespace strata {
namespace {

constexpr int kMaxNormThreads = 1024;
constexpr std::int64_t kNormBlockThreads = 128;  ///< of rows that need a warp each
constexpr std::int64_t kLongNormThreads = 512;
constexpr std::int64_t kUnalignedNormThreads = 256;

template <typename T>
struct NormOperands {
  bool centred;
  float epsilon;
  std::int64_t rows, columns;
  Rows<const T> input, addend;  ///< addend.data may be null
  Rows<T> sum, out;
  const T *weight, *bias;  ///< bias may be null
  bool unit_offset;
  float *mean, *reciprocal_deviation;
  bool given_deviation;
};

/// Columns [column, column + width) of what is normalised, in the storage dtype; writes `sum`.
template <int width, typename T>
__device__ __forceinline__ Run<T, width> read_input(const NormOperands<T>& x, std::int64_t row,
                                                    std::int64_t column) {
  const auto input = load_run<width>(x.input.row(row) + column);
  if (x.addend.data == nullptr) return input;
  const auto addend = load_run<width>(x.addend.row(row) + column);
  Run<T, width> sum;
#pragma unroll
  for (int i = 0; i < width; ++i)
    sum.values[i] = from_float<T>(to_float(input.values[i]) + to_float(addend.values[i]));
  store_run(sum, x.sum.row(row) + column);
  return sum;
}

template <int width, typename T>
__device__ __forceinline__ void write_output(const NormOperands<T>& x, std::int64_t row, std::int64_t column,
                                             const float (&normalised)[width]) {
  float weight[width], out[width];
  to_floats(load_run<width>(x.weight + column), weight);
#pragma unroll
  for (int i = 0; i < width; ++i) out[i] = normalised[i] * (x.unit_offset ? 1.0F + weight[i] : weight[i]);
  if (x.bias != nullptr) {
    const auto bias = load_run<width>(x.bias + column);
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] += to_float(bias.values[i]);
  }
  store_run(from_floats<T>(out), x.out.row(row) + column);
}

/// A row per threadIdx.y.
template <int width, int runs, typename T>
__global__ void __launch_bounds__(kMaxNormThreads) norm_kernel(NormOperands<T> x) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= x.rows)
    return;  // with its whole warp, and there are several rows only if no warp waits for another
  const T* source = x.addend.data == nullptr ? x.input.row(row) : x.sum.row(row);
  const auto again = [&](std::int64_t column) { return load_run<width>(source + column); };
  ThreadRow<Run<T, width>, width, runs> values(x.columns);

  const auto read = [&](std::int64_t column) { return read_input<width>(x, row, column); };
  values.read(read);
  float sum = 0;
  values.for_each(read, [&](int, std::int64_t, const Run<T, width>& run) {
    float value[width];
    to_floats(run, value);
#pragma unroll
    for (int i = 0; i < width; ++i) sum += x.centred ? value[i] : value[i] * value[i];
  });
  const auto columns = static_cast<float>(x.columns);
  const float average = block_sum(sum) / columns;
  const float mean = x.centred ? average : 0.0F;
  float variance = average;
  if (x.centred) {
    float squares = 0;
    values.for_each(again, [&](int, std::int64_t, const Run<T, width>& run) {
      float value[width];
      to_floats(run, value);
#pragma unroll
      for (int i = 0; i < width; ++i) squares += (value[i] - mean) * (value[i] - mean);
    });
    variance = block_sum(squares) / columns;
  }
  const float reciprocal_deviation =
      x.given_deviation ? x.reciprocal_deviation[row] : 1.0F / sqrtf(variance + x.epsilon);
  if (threadIdx.x == 0 && !x.given_deviation) {
    if (x.centred) x.mean[row] = mean;
    x.reciprocal_deviation[row] = reciprocal_deviation;
  }
  values.for_each(again, [&](int, std::int64_t column, const Run<T, width>& run) {
    float value[width];
    to_floats(run, value);
#pragma unroll
    for (int i = 0; i < width; ++i) value[i] = (value[i] - mean) * reciprocal_deviation;
    write_output<width>(x, row, column, value);
  });
}

/// In loads of 16 bytes, if there are as many.
template <int run>
__device__ __forceinline__ void load_floats(const float* from, float (&values)[run]) {
  constexpr int kPart = run < 4 ? run : 4;
#pragma unroll
  for (int first = 0; first < run; first += kPart) {
    const auto part = load_run<kPart>(from + first);
#pragma unroll
    for (int i = 0; i < kPart; ++i) values[first + i] = part.values[i];
  }
}

template <int run, typename T>
__global__ void __launch_bounds__(kUnalignedNormThreads)
    row_dots_kernel(Rows<const T> a, Rows<const T> b, std::int64_t columns, const T* weight,
                    const float* exact_weight, bool unit_offset, float* out) {
  const std::int64_t row = blockIdx.x;
  float sum = 0;
  for (std::int64_t column = std::int64_t{threadIdx.x} * run; column < columns; column += blockDim.x * run) {
    float of_a[run], of_b[run], factors[run] = {};
    to_floats(load_run<run>(a.row(row) + column), of_a);
    to_floats(load_run<run>(b.row(row) + column), of_b);
    if (weight != nullptr) to_floats(load_run<run>(weight + column), factors);
    if (exact_weight != nullptr) load_floats(exact_weight + column, factors);
#pragma unroll
    for (int i = 0; i < run; ++i) {
      const bool is_given = weight != nullptr || exact_weight != nullptr;
      const float factor = is_given ? factors[i] + (unit_offset ? 1.0F : 0.0F) : 1.0F;
      sum += of_a[i] * of_b[i] * factor;
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[row] = sum;
}

__global__ void __launch_bounds__(kUnalignedNormThreads)
    row_deviation_kernel(const float* squares, std::int64_t rows, float columns, float epsilon,
                         float* deviation) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row < rows) deviation[row] = 1.0F / sqrtf(squares[row] / columns + epsilon);
}

template <int width, int runs, typename T>
void launch_norm(const CudaContext& context, const NormOperands<T>& x, std::int64_t threads) {
  const std::int64_t rows = threads == kWarp ? kNormBlockThreads / kWarp : 1;
  launch(norm_kernel<width, runs, T>, dim3(static_cast<unsigned>(divide_rounding_up(x.rows, rows))),
         dim3(static_cast<unsigned>(threads), static_cast<unsigned>(rows)), 0, context.stream, x);
}

/// A warp takes up to 4 runs for each lane before there is a second warp: reductions in a warp are the
/// cheaper ones.
template <int width, typename T>
void launch_aligned_norm(const CudaContext& context, const NormOperands<T>& x) {
  const std::int64_t runs = x.columns / width;
  if (runs <= kWarp) return launch_norm<width, 1>(context, x, kWarp);
  if (runs <= 2 * kWarp) return launch_norm<width, 2>(context, x, kWarp);
  if (runs <= 4 * kMaxNormThreads) {
    return launch_norm<width, 4>(context, x, whole_warps(divide_rounding_up(runs, 4)));
  }
  launch_norm<width, 0>(context, x, kLongNormThreads);
}

}  // namespace

void run_on_cuda(const CudaContext& context, const RowDots& call) {
  if (call.a.elements() == 0) return;
  with_storage_type(call.a.dtype, [&](auto element) {
    using T = decltype(element);
    const auto a = rows_of<const T>(call.a), b = rows_of<const T>(call.b);
    const bool is_exact = call.weight.dtype == DType::fp32;
    const T* weight = is_exact ? nullptr : rows_of<const T>(call.weight).data;
    const float* exact_weight = is_exact ? rows_of<const float>(call.weight).data : nullptr;
    const Rows<const T> at_weight{static_cast<const T*>(call.weight.data), 0};  // both have loads of 16 bytes
    const auto enqueue = [&](auto run) {
      const std::int64_t threads = whole_warps(divide_rounding_up(call.a.columns, std::int64_t{run()}));
      launch(row_dots_kernel<run(), T>, dim3(static_cast<unsigned>(call.a.rows)),
             dim3(static_cast<unsigned>(std::min(threads, kUnalignedNormThreads))), 0, context.stream, a, b,
             call.a.columns, weight, exact_weight, call.unit_offset, rows_of<float>(call.out).data);
    };
    with_run<16 / sizeof(T)>(call.a.columns, enqueue, a, b, at_weight);
  });
}

void run_on_cuda(const CudaContext& context, const RowDeviation& call) {
  const std::int64_t rows = call.squares.columns;
  if (rows == 0) return;
  launch(row_deviation_kernel, dim3(static_cast<unsigned>(divide_rounding_up(rows, kUnalignedNormThreads))),
         dim3(kUnalignedNormThreads), 0, context.stream, call.squares.row<const float>(0), rows,
         static_cast<float>(call.columns), call.epsilon, call.deviation.row<float>(0));
}

void run_on_cuda(const CudaContext& context, const NormForward& norm) {
  if (norm.input.elements() == 0) return;
  with_storage_type(norm.input.dtype, [&](auto element) {
    using T = decltype(element);
    const NormOperands<T> x = {.centred = norm.kind == NormKind::layer_norm,
                               .epsilon = norm.epsilon,
                               .rows = norm.input.rows,
                               .columns = norm.input.columns,
                               .input = rows_of<const T>(norm.input),
                               .addend = rows_of<const T>(norm.addend),
                               .sum = rows_of<T>(norm.sum),
                               .out = rows_of<T>(norm.out),
                               .weight = rows_of<const T>(norm.weight).data,
                               .bias = rows_of<const T>(norm.bias).data,
                               .unit_offset = norm.unit_offset,
                               .mean = rows_of<float>(norm.mean).data,
                               .reciprocal_deviation = rows_of<float>(norm.reciprocal_deviation).data,
                               .given_deviation = norm.given_deviation};
    constexpr int kWidth = 16 / sizeof(T);
    if (x.columns % kWidth == 0 && is_aligned<kWidth>(x.input) && is_aligned<kWidth>(x.addend) &&
        is_aligned<kWidth>(x.sum) && is_aligned<kWidth>(x.out) && is_aligned<kWidth>(x.weight) &&
        is_aligned<kWidth>(x.bias)) {
      launch_aligned_norm<kWidth>(context, x);
    } else {
      launch_norm<1, 0>(context, x, whole_warps(std::min(x.columns, kUnalignedNormThreads)));
    }
  });
}

}  // namespace strata
