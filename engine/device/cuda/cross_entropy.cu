// Softmax cross entropy and its gradient in place of the logits, a block per row. The row is read once for
// its running maximum and sum (Milakov & Gimelshein 2018), and once more for the gradient: from shared memory
// if it fits.
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/loss_calls.h"

namespace strata {
namespace {

constexpr int kMostThreads = 512;
constexpr int kBlocks = 3;  ///< of as many threads on a multiprocessor: 40 registers are enough

/// Rows up to this size stay in shared memory, together with the reductions' words and the KiB that the
/// driver reserves within the 48 KiB that need no opting in.
constexpr std::int64_t kCacheBytes = 46 * 1024;

template <typename T>
constexpr int kRun = 16 / static_cast<int>(sizeof(T));

struct NoCap {
  static constexpr int kRunsAhead = 4;  ///< of a thread
  __device__ static float of(float logit) { return logit; }
  /// gradient · the derivative of that.
  __device__ static float gradient(float /*logit*/, float gradient) { return gradient; }
};
struct SoftCap {
  static constexpr int kRunsAhead = 1;  ///< tanh is long
  float cap;
  /// Rounded, so that a row's largest logit and its difference from that are of the same number.
  __device__ float of(float logit) const { return __fmul_rn(cap, tanhf(logit / cap)); }
  __device__ float gradient(float logit, float gradient) const {
    const float tangent = tanhf(logit / cap);
    return gradient * (1.0F - tangent * tangent);
  }
};

/// `Cap`: what a logit counts as.
template <typename T, typename Cap>
struct RowsOfLogits {
  Rows<T> logits;
  std::int64_t columns;
  const std::int32_t* targets;
  Cap cap;
  float* losses = nullptr;
  float gradient_scale = 1;
  const float* loss_scale = nullptr;  ///< may be null: 1
  const float* penalty = nullptr;     ///< may be null: 0
  bool gradient = true;
  bool cached = false;
};

/// How a row falls apart: runs of 16 aligned bytes, and fewer than two runs of single elements at its ends.
template <typename T>
struct Parts {
  __device__ Parts(const T* row, std::int64_t columns) {
    const std::int64_t misaligned = reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T);
    head = std::min((kRun<T> - misaligned) % kRun<T>, columns);
    runs = (columns - head) / kRun<T>;
    ends = columns - runs * kRun<T>;
  }
  __device__ std::int64_t run_column(std::int64_t i) const { return head + i * kRun<T>; }
  __device__ std::int64_t end_column(std::int64_t i) const { return i < head ? i : runs * kRun<T> + i; }
  std::int64_t head, runs, ends;
};

/// Maximum of logits, and the sum of exp(logit - maximum).
struct RunningSum {
  float largest = -FLT_MAX;  ///< finite, so that differences from it are never NaN
  float total = 0;

  template <int count>
  __device__ void add(const float (&values)[count]) {
    float new_largest = largest;
#pragma unroll
    for (int i = 0; i < count; ++i) new_largest = fmaxf(new_largest, values[i]);
    total *= expf(largest - new_largest);
#pragma unroll
    for (int i = 0; i < count; ++i) total += expf(values[i] - new_largest);
    largest = new_largest;
  }
};

/// Leaves what single threads have summed as one sum in all of them.
__device__ RunningSum over_block(const RunningSum& mine) {
  RunningSum all;
  all.largest = block_max(mine.largest);
  all.total = block_sum(mine.total * expf(mine.largest - all.largest));
  return all;
}

template <typename T, typename Cap>
__device__ RunningSum sum_of_row(const RowsOfLogits<T, Cap>& x, const T* row, const Parts<T>& parts) {
  Run<T, kRun<T>>* cache = dynamic_shared<Run<T, kRun<T>>>();
  RunningSum sum;
#pragma unroll Cap::kRunsAhead
  for (std::int64_t i = threadIdx.x; i < parts.runs; i += blockDim.x) {
    const auto run = load_run<kRun<T>>(row + parts.run_column(i));
    if (x.cached) cache[i] = run;
    float values[kRun<T>];
    to_floats(run, values);
#pragma unroll
    for (int j = 0; j < kRun<T>; ++j) values[j] = x.cap.of(values[j]);
    sum.add(values);
  }
  if (threadIdx.x < parts.ends) {
    const float values[] = {x.cap.of(to_float(row[parts.end_column(threadIdx.x)]))};
    sum.add(values);
  }
  return over_block(sum);
}

/// Each thread writes the elements that it has read in sum_of_row, if it has. `target`: a column, or one that
/// the row lacks.
template <typename T, typename Cap>
__device__ void write_gradient(const RowsOfLogits<T, Cap>& x, const RunningSum& sum, float loss,
                               std::int64_t target, T* row, const Parts<T>& parts) {
  const Run<T, kRun<T>>* cache = dynamic_shared<Run<T, kRun<T>>>();
  const float factor = x.loss_scale == nullptr ? x.gradient_scale : x.gradient_scale * *x.loss_scale;
  const float scale = factor / sum.total;
  const float of_target = expm1f(-loss) * factor;  // softmax - 1, without cancellation
  const auto gradient = [&](T element, std::int64_t column) {
    const float logit = to_float(element);
    const float of_capped = column == target ? of_target : expf(x.cap.of(logit) - sum.largest) * scale;
    return from_float<T>(x.cap.gradient(logit, of_capped));
  };
#pragma unroll Cap::kRunsAhead
  for (std::int64_t i = threadIdx.x; i < parts.runs; i += blockDim.x) {
    const std::int64_t column = parts.run_column(i);
    auto run = x.cached ? cache[i] : load_run<kRun<T>>(row + column);
#pragma unroll
    for (int j = 0; j < kRun<T>; ++j) run.values[j] = gradient(run.values[j], column + j);
    store_run(run, row + column);
  }
  if (threadIdx.x < parts.ends) {
    const std::int64_t column = parts.end_column(threadIdx.x);
    row[column] = gradient(row[column], column);
  }
}

template <typename T>
__device__ void clear_row(T* row, const Parts<T>& parts) {
  const Run<T, kRun<T>> zeros{};
  for (std::int64_t i = threadIdx.x; i < parts.runs; i += blockDim.x)
    store_run(zeros, row + parts.run_column(i));
  if (threadIdx.x < parts.ends) row[parts.end_column(threadIdx.x)] = T{};
}

template <typename T, typename Cap>
__global__ void __launch_bounds__(kMostThreads, kBlocks) cross_entropy_kernel(RowsOfLogits<T, Cap> x) {
  T* row = x.logits.row(blockIdx.x);
  const Parts<T> parts(row, x.columns);
  const std::int32_t target = x.targets[blockIdx.x];
  if (target == kNoTarget) {
    if (threadIdx.x == 0) x.losses[blockIdx.x] = 0;
    if (x.gradient) clear_row(row, parts);
    return;
  }
  const float target_logit = x.cap.of(to_float(row[target]));  // before any thread overwrites it
  const RunningSum sum = sum_of_row(x, row, parts);
  const float loss = sum.largest - target_logit + logf(sum.total);
  if (threadIdx.x == 0) x.losses[blockIdx.x] = x.penalty == nullptr ? loss : loss + *x.penalty;
  if (x.gradient) write_gradient(x, sum, loss, target, row, parts);
}

template <typename T, typename Cap>
__global__ void __launch_bounds__(kMostThreads, kBlocks)
    softmax_part_kernel(RowsOfLogits<T, Cap> x, std::int64_t first, Rows<float> statistics) {
  const T* row = x.logits.row(blockIdx.x);
  float* to = statistics.row(blockIdx.x);
  if (x.targets[blockIdx.x] == kNoTarget) {
    if (threadIdx.x < kSoftmaxStatistics) to[threadIdx.x] = 0;
    return;
  }
  const std::int64_t target = x.targets[blockIdx.x] - first;
  const RunningSum sum = sum_of_row(x, row, Parts<T>(row, x.columns));
  if (threadIdx.x != 0) return;
  to[0] = sum.largest;
  to[1] = sum.total;
  to[2] = target >= 0 && target < x.columns ? x.cap.of(to_float(row[target])) : 0.0F;
}

/// A row's sum over all parts, in their order, and its loss: 0 if it has no target, and the sum is 0, too.
struct JoinedParts {
  __device__ JoinedParts(const float* statistics, std::int64_t count) {
    float target_logit = 0;
    sum.largest = statistics[0];
    for (std::int64_t i = 0; i < count; i += kSoftmaxStatistics)
      sum.largest = fmaxf(sum.largest, statistics[i]);
    for (std::int64_t i = 0; i < count; i += kSoftmaxStatistics) {
      sum.total += statistics[i + 1] * expf(statistics[i] - sum.largest);
      target_logit += statistics[i + 2];
    }
    loss = sum.total == 0 ? 0 : sum.largest - target_logit + logf(sum.total);
  }
  RunningSum sum;
  float loss;
};

/// A thread per row.
__global__ void __launch_bounds__(kWarp)
    parts_loss_kernel(Rows<const float> statistics, std::int64_t rows, std::int64_t columns, float* losses,
                      const float* penalty) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  if (row >= rows) return;
  const JoinedParts joined(statistics.row(row), columns);
  losses[row] = penalty == nullptr || joined.sum.total == 0 ? joined.loss : joined.loss + *penalty;
}

template <typename T, typename Cap>
__global__ void __launch_bounds__(kMostThreads, kBlocks)
    parts_gradient_kernel(RowsOfLogits<T, Cap> x, std::int64_t first, Rows<const float> statistics,
                          std::int64_t columns) {
  T* row = x.logits.row(blockIdx.x);
  const Parts<T> parts(row, x.columns);
  if (x.targets[blockIdx.x] == kNoTarget) return clear_row(row, parts);
  const JoinedParts joined(statistics.row(blockIdx.x), columns);
  write_gradient(x, joined.sum, joined.loss, x.targets[blockIdx.x] - first, row, parts);
}

unsigned threads_for(std::int64_t runs) {
  return static_cast<unsigned>(std::min<std::int64_t>(divide_rounding_up(runs, kWarp) * kWarp, kMostThreads));
}

/// Calls body with what every call says of its rows.
template <typename Call, typename Body>
void with_rows(const Call& call, const Body& body) {
  assert(static_cast<std::int64_t>(call.targets.size()) == call.logits.rows);
  if (call.logits.rows == 0) return;
  with_storage_type(call.logits.dtype, [&](auto element) {
    using T = decltype(element);
    const auto with_cap = [&](auto cap) {
      body(RowsOfLogits<T, decltype(cap)>{.logits = rows_of<T>(call.logits),
                                          .columns = call.logits.columns,
                                          .targets = call.targets.data(),
                                          .cap = cap});
    };
    call.soft_cap == 0 ? with_cap(NoCap()) : with_cap(SoftCap{call.soft_cap});
  });
}

}  // namespace

void run_on_cuda(const CudaContext& context, const CrossEntropy& call) {
  with_rows(call, [&]<typename T, typename Cap>(RowsOfLogits<T, Cap> x) {
    x.losses = call.losses.row<float>(0);
    x.gradient_scale = call.gradient_scale;
    x.loss_scale = call.loss_scale;
    x.penalty = call.penalty;
    x.gradient = call.gradient;
    x.cached = x.columns * size_of(call.logits.dtype) <= kCacheBytes;
    const std::int64_t runs = divide_rounding_up(x.columns, kRun<T>);
    launch(cross_entropy_kernel<T, Cap>, dim3(static_cast<unsigned>(call.logits.rows)),
           dim3(threads_for(runs)), x.cached ? static_cast<std::size_t>(runs) * 16 : 0, context.stream, x);
  });
}

void run_on_cuda(const CudaContext& context, const SoftmaxPart& call) {
  with_rows(call, [&]<typename T, typename Cap>(const RowsOfLogits<T, Cap>& x) {
    launch(softmax_part_kernel<T, Cap>, dim3(static_cast<unsigned>(call.logits.rows)),
           dim3(threads_for(divide_rounding_up(x.columns, kRun<T>))), 0, context.stream, x, call.first,
           rows_of<float>(call.statistics));
  });
}

void run_on_cuda(const CudaContext& context, const PartsLoss& call) {
  const std::int64_t rows = call.statistics.rows;
  if (rows == 0) return;
  launch(parts_loss_kernel, dim3(static_cast<unsigned>(divide_rounding_up(rows, kWarp))), dim3(kWarp), 0,
         context.stream, rows_of<const float>(call.statistics), rows, call.statistics.columns,
         call.losses.row<float>(0), call.penalty);
}

void run_on_cuda(const CudaContext& context, const PartsGradient& call) {
  with_rows(call, [&]<typename T, typename Cap>(RowsOfLogits<T, Cap> x) {
    x.gradient_scale = call.gradient_scale;
    x.loss_scale = call.loss_scale;
    launch(parts_gradient_kernel<T, Cap>, dim3(static_cast<unsigned>(call.logits.rows)),
           dim3(threads_for(divide_rounding_up(x.columns, kRun<T>))), 0, context.stream, x, call.first,
           rows_of<const float>(call.statistics), call.statistics.columns);
  });
}

}  // namespace strata
