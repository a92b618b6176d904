// Gradients of LayerNorm and RMSNorm. A block goes through a chunk of rows and adds up the parameters'
// gradients of its columns on the way, so that each operand is read once. Then the chunks' sums are added in
// their order.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/cuda/column_sums.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/cuda/norm_row.cuh"
#include "engine/device/norm_calls.h"

namespace strata {
namespace {

constexpr int kMostGradientThreads = 1024;
constexpr std::int64_t kLongGradientThreads = 512;
constexpr std::int64_t kUnalignedGradientThreads = 256;
constexpr std::int64_t kMinRowsOfChunk = 8;
constexpr std::int64_t kMultiprocessors = 132;  ///< an H100's; a constant, since the sums' bits depend on it
constexpr std::int64_t kWantedNormThreads = 1024;  ///< on each of them
constexpr std::int64_t kMostNormBlocks = 16;       ///< on each of them

template <typename T>
struct GradientOperands {
  bool centred;
  std::int64_t rows, columns, chunk_rows;
  Rows<const T> input, out_gradient, addend;  ///< addend.data may be null
  Rows<T> input_gradient;
  const T* weight;
  bool unit_offset;
  const float *mean, *reciprocal_deviation, *projections;  ///< the last may be null
  std::int64_t whole_columns;
  float *weight_sums, *bias_sums;  ///< [chunks, columns], or null
};

template <typename T, int width>
struct InputAndGradient {
  Bits<T, width> input, gradient;
};

/// One parameter's gradient over a chunk's rows, for the runs of columns of a thread: in registers, or in its
/// place of GradientOperands if `runs` is 0.
template <int width, int runs>
class ParameterSums {
 public:
  /// sums: [chunks, columns], or null: the gradient is not wanted.
  __device__ ParameterSums(float* sums, std::int64_t columns)
      : sums_(sums == nullptr ? nullptr : sums + blockIdx.x * columns) {}

  __device__ __forceinline__ void begin(std::int64_t column) {
    if constexpr (runs == 0) {
      if (sums_ != nullptr) write(kept_[0], column);
    }
  }
  /// Run i is at `column`.
  __device__ __forceinline__ void add(int i, std::int64_t column, const float (&gradient)[width]) {
    if (sums_ == nullptr) return;
    if constexpr (runs > 0) {
#pragma unroll
      for (int k = 0; k < width; ++k) kept_[i][k] += gradient[k];
    } else {
      float sums[width];
#pragma unroll
      for (int k = 0; k < width; k += kMoved) {
        const auto run = load_run<kMoved>(sums_ + column + k);
#pragma unroll
        for (int j = 0; j < kMoved; ++j) sums[k + j] = run.values[j] + gradient[k + j];
      }
      write(sums, column);
    }
  }
  __device__ __forceinline__ void end(int i, std::int64_t column) {
    if constexpr (runs > 0) {
      if (sums_ != nullptr) write(kept_[i], column);
    }
  }

 private:
  static constexpr int kMoved = std::min(width, 4);

  __device__ __forceinline__ void write(const float (&sums)[width], std::int64_t column) {
#pragma unroll
    for (int k = 0; k < width; k += kMoved) {
      Run<float, kMoved> run;
#pragma unroll
      for (int j = 0; j < kMoved; ++j) run.values[j] = sums[k + j];
      store_run(run, sums_ + column + k);
    }
  }

  float* sums_;
  float kept_[std::max(runs, 1)][width] = {};
};

/// One row's statistics, and the averages over its columns that its gradient needs. With n = (x - mean) · r
/// and g = out_gradient · factor, input_gradient = r · (g - average(g) - n · average(g · n)) + addend,
/// without average(g) for RMSNorm.
template <int width, typename T>
struct RowGradient {
  using Operands = GradientOperands<T>;

  __device__ RowGradient(const Operands& x, std::int64_t row)
      : row(row), mean(x.centred ? x.mean[row] : 0.0F), reciprocal_deviation(x.reciprocal_deviation[row]) {}

  __device__ __forceinline__ InputAndGradient<T, width> read(const Operands& x, std::int64_t column) const {
    return {load_bits<width>(x.input.row(row) + column), load_bits<width>(x.out_gradient.row(row) + column)};
  }

  /// gradient = out_gradient, scaled = g, normalised = n.
  __device__ __forceinline__ void unpack(const Operands& x, const InputAndGradient<T, width>& run,
                                         std::int64_t column, float (&gradient)[width],
                                         float (&scaled)[width], float (&normalised)[width]) const {
    to_floats(std::bit_cast<Run<T, width>>(run.input), normalised);
    to_floats(std::bit_cast<Run<T, width>>(run.gradient), gradient);
    to_floats(load_run<width>(x.weight + column), scaled);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      normalised[k] = (normalised[k] - mean) * reciprocal_deviation;
      scaled[k] = (x.unit_offset ? 1.0F + scaled[k] : scaled[k]) * gradient[k];
    }
  }

  /// Makes averages of the sums of g and of g · n.
  __device__ __forceinline__ void make_averages(const Operands& x, float (&averages)[2]) const {
    averages[0] = x.centred ? averages[0] / static_cast<float>(x.columns) : 0.0F;
    averages[1] = x.projections == nullptr
                      ? averages[1] / static_cast<float>(x.columns)
                      : x.projections[row] * reciprocal_deviation / static_cast<float>(x.whole_columns);
  }

  /// Leaves input_gradient in `scaled`, and in memory.
  __device__ __forceinline__ void write(const Operands& x, std::int64_t column, const float (&averages)[2],
                                        float (&scaled)[width], const float (&normalised)[width]) const {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      scaled[k] = reciprocal_deviation * (scaled[k] - averages[0] - normalised[k] * averages[1]);
    }
    if (x.addend.data != nullptr) {
      const auto addend = load_run<width>(x.addend.row(row) + column);
#pragma unroll
      for (int k = 0; k < width; ++k) scaled[k] += to_float(addend.values[k]);
    }
    store_run(from_floats<T>(scaled), x.input_gradient.row(row) + column);
  }

  std::int64_t row;
  float mean, reciprocal_deviation;
};

/// A row with what a thread has of it.
template <int width, int runs, typename T>
struct RowOfBlock {
  using Operands = GradientOperands<T>;
  using Kept = InputAndGradient<T, width>;
  /// Two runs of 16-bit elements and the sums of as many columns are more than a thread has registers.
  static constexpr bool kKeeps = runs == 1 || (runs == 2 && width <= 4);

  __device__ RowOfBlock(const Operands& x, std::int64_t row) : gradient(x, row), values(x.columns) {}

  __device__ __forceinline__ void load(const Operands& x, std::int64_t row) {
    gradient = RowGradient<width, T>(x, row);
    values.read([&](std::int64_t column) { return gradient.read(x, column); });
  }

  /// Adds the thread's g and g · n to `sums`.
  __device__ __forceinline__ void add_up(const Operands& x, float (&sums)[2]) const {
    for_each(x, [&](int, std::int64_t, const auto&, const auto& scaled, const auto& normalised) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        sums[0] += scaled[k];
        sums[1] += scaled[k] * normalised[k];
      }
    });
  }

  __device__ __forceinline__ void finish(const Operands& x, const float (&averages)[2],
                                         ParameterSums<width, runs>& weight,
                                         ParameterSums<width, runs>& bias) const {
    for_each(x, [&](int i, std::int64_t column, auto& out_gradient, auto& scaled, const auto& normalised) {
      bias.add(i, column, out_gradient);
#pragma unroll
      for (int k = 0; k < width; ++k) out_gradient[k] *= normalised[k];
      weight.add(i, column, out_gradient);
      gradient.write(x, column, averages, scaled, normalised);
    });
  }

  /// Calls body(i, column, out_gradient, g, n) for the thread's runs.
  template <typename Body>
  __device__ __forceinline__ void for_each(const Operands& x, const Body& body) const {
    values.for_each([&](std::int64_t column) { return gradient.read(x, column); },
                    [&](int i, std::int64_t column, const Kept& run) {
                      float out_gradient[width], scaled[width], normalised[width];
                      gradient.unpack(x, run, column, out_gradient, scaled, normalised);
                      body(i, column, out_gradient, scaled, normalised);
                    });
  }

  RowGradient<width, T> gradient;
  ThreadRow<Kept, width, runs, kKeeps> values;
};

/// `biased`: the bias' gradient is wanted.
template <int width, int runs, bool biased, typename T>
__global__ void __launch_bounds__(kMostGradientThreads, 1) norm_backward_kernel(GradientOperands<T> x) {
  ParameterSums<width, runs> weight(x.weight_sums, x.columns);
  ParameterSums<width, runs> bias(biased ? x.bias_sums : nullptr, x.columns);
  const ThreadRow<char, width, runs> own(x.columns);
  const auto nothing = [](std::int64_t) { return '\0'; };
  own.for_each(nothing, [&](int, std::int64_t column, char) {
    weight.begin(column);
    bias.begin(column);
  });
  const std::int64_t first_row = blockIdx.x * x.chunk_rows;
  const std::int64_t last_row = std::min(x.rows, first_row + x.chunk_rows);
  constexpr bool kAhead = runs == 1;  // the next row's loads are under way while a row is reduced
  RowOfBlock<width, runs, T> next(x, first_row);
  if constexpr (kAhead) next.load(x, first_row);
  for (std::int64_t row = first_row; row < last_row; ++row) {
    if constexpr (!kAhead) next.load(x, row);
    const RowOfBlock<width, runs, T> now = next;
    float averages[2] = {};
    now.add_up(x, averages);
    if constexpr (kAhead) {
      if (row + 1 < last_row) next.load(x, row + 1);
    }
    each_over_block<Sum>(averages);
    now.gradient.make_averages(x, averages);
    now.finish(x, averages, weight, bias);
  }
  own.for_each(nothing, [&](int i, std::int64_t column, char) {
    weight.end(i, column);
    bias.end(i, column);
  });
}

/// How a call is cut. Depends on the shape only, as the sums' bits do.
struct Chunks {
  std::int64_t rows, count;
};
Chunks cut(std::int64_t rows, std::int64_t threads) {
  const std::int64_t blocks =
      std::clamp<std::int64_t>(kWantedNormThreads / threads, 1, kMostNormBlocks) * kMultiprocessors;
  const std::int64_t chunk_rows = std::max(kMinRowsOfChunk, divide_rounding_up(rows, blocks));
  return {chunk_rows, divide_rounding_up(rows, chunk_rows)};
}

/// Threads of a block for aligned operands of `runs` runs in a row.
std::int64_t aligned_threads(std::int64_t runs) {
  if (runs <= kMostGradientThreads) return whole_warps(runs);
  return runs <= 2 * kMostGradientThreads ? whole_warps(divide_rounding_up(runs, 2)) : kLongGradientThreads;
}

std::int64_t unaligned_threads(std::int64_t columns) {
  return whole_warps(std::min(columns, kUnalignedGradientThreads));
}

template <int width, int runs, typename T>
void launch_norm_backward(const CudaContext& context, GradientOperands<T> x, std::int64_t threads,
                          const NormBackward& norm) {
  const Chunks chunks = cut(x.rows, threads);
  const Bytes sum_bytes = chunks.count * x.columns * size_of(DType::fp32);
  std::byte* scratch = context.scratch.at_least(norm.bias_gradient ? 2 * sum_bytes : sum_bytes);
  const Matrix weight_sums(scratch, DType::fp32, chunks.count, x.columns);
  const Matrix bias_sums(scratch + sum_bytes, DType::fp32, chunks.count, x.columns);
  x.chunk_rows = chunks.rows;
  if (norm.weight_gradient) x.weight_sums = weight_sums.row<float>(0);
  if (norm.bias_gradient) x.bias_sums = bias_sums.row<float>(0);
  const auto kernel = norm.bias_gradient ? norm_backward_kernel<width, runs, true, T>
                                         : norm_backward_kernel<width, runs, false, T>;
  launch(kernel, dim3(static_cast<unsigned>(chunks.count)), dim3(static_cast<unsigned>(threads)), 0,
         context.stream, x);
  if (norm.weight_gradient) add_partial_sums_on_cuda(context, weight_sums, norm.weight_gradient);
  if (norm.bias_gradient) add_partial_sums_on_cuda(context, bias_sums, norm.bias_gradient);
}

/// As few runs for a thread as a block allows: the parameters' sums take as many registers again.
template <int width, typename T>
void launch_aligned_norm_backward(const CudaContext& context, const GradientOperands<T>& x,
                                  const NormBackward& norm) {
  const std::int64_t runs = x.columns / width;
  if (runs <= kMostGradientThreads) {
    launch_norm_backward<width, 1>(context, x, aligned_threads(runs), norm);
  } else if (runs <= 2 * kMostGradientThreads) {
    launch_norm_backward<width, 2>(context, x, aligned_threads(runs), norm);
  } else {
    launch_norm_backward<width, 0>(context, x, aligned_threads(runs), norm);
  }
}

}  // namespace

/// Whether the operands are aligned is not known before there is memory.
Bytes scratch_on_cuda(const NormBackward& norm) {
  const std::int64_t columns = norm.input.columns;
  if (norm.input.elements() == 0) return 0;
  const std::int64_t runs = columns * size_of(norm.input.dtype) / 16;
  std::int64_t chunks = cut(norm.input.rows, unaligned_threads(columns)).count;
  if (runs > 0) chunks = std::max(chunks, cut(norm.input.rows, aligned_threads(runs)).count);
  return (norm.bias_gradient ? 2 : 1) * chunks * columns * size_of(DType::fp32);
}

void run_on_cuda(const CudaContext& context, const NormBackward& norm) {
  if (norm.input.elements() == 0) return;
  with_storage_type(norm.input.dtype, [&](auto element) {
    using T = decltype(element);
    const GradientOperands<T> x = {
        .centred = norm.kind == NormKind::layer_norm,
        .rows = norm.input.rows,
        .columns = norm.input.columns,
        .chunk_rows = 0,
        .input = rows_of<const T>(norm.input),
        .out_gradient = rows_of<const T>(norm.out_gradient),
        .addend = rows_of<const T>(norm.addend),
        .input_gradient = rows_of<T>(norm.input_gradient),
        .weight = rows_of<const T>(norm.weight).data,
        .unit_offset = norm.unit_offset,
        .mean = rows_of<const float>(norm.mean).data,
        .reciprocal_deviation = rows_of<const float>(norm.reciprocal_deviation).data,
        .projections = rows_of<const float>(norm.projections).data,
        .whole_columns = norm.whole_columns,
        .weight_sums = nullptr,
        .bias_sums = nullptr};
    constexpr int kWidth = 16 / sizeof(T);
    if (x.columns % kWidth == 0 && is_aligned<kWidth>(x.input) && is_aligned<kWidth>(x.out_gradient) &&
        is_aligned<kWidth>(x.addend) && is_aligned<kWidth>(x.input_gradient) &&
        is_aligned<kWidth>(x.weight)) {
      launch_aligned_norm_backward<kWidth>(context, x, norm);
    } else {
      launch_norm_backward<1, 0>(context, x, unaligned_threads(x.columns), norm);
    }
  });
}

}  // namespace strata
