// Rotary position embedding, in place: a thread turns a run of pairs of one head.
#include <algorithm>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/attention_calls.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/cuda/rotation.cuh"

namespace strata {
namespace {

constexpr std::int64_t kRopeThreads = 128;
constexpr std::int64_t kMostRopeBlocks = 65535;  ///< down, and over the batch

template <typename T>
struct Rotation {
  Rows<T> x;
  std::int64_t rows, heads, sequence, head_dimension;
  std::int64_t half;  ///< the pairs of a head
  Rows<const float> cosine, sine;
  float direction;  ///< 1, or -1: back
  const std::int32_t*
      places;  ///< null: a row's place is that in its sequence; otherwise all are one sequence
};

/// `width` must divide `half`.
template <int width, typename T>
__device__ __forceinline__ void rotate_run(T* x, std::int64_t half, const float (&cosine)[width],
                                           const float (&sine)[width]) {
  float first[width], second[width];
  to_floats(load_run<width>(x), first);
  to_floats(load_run<width>(x + half), second);
  rotate(first, second, cosine, sine);
  store_run(from_floats<T>(first), x);
  store_run(from_floats<T>(second), x + half);
}

template <int width, typename T>
__global__ void __launch_bounds__(kRopeThreads) rope_kernel(Rotation<T> rotation) {
  const std::int64_t half = rotation.half;
  const auto runs = static_cast<unsigned>(half / width);
  const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned head = index / runs;
  if (head >= rotation.heads) return;
  const std::int64_t pair = std::int64_t{index - head * runs} * width;
  for (std::int64_t t = blockIdx.y; t < rotation.sequence; t += gridDim.y) {
    float cosine[width], sine[width];
    const std::int64_t place = rotation.places == nullptr ? t : rotation.places[t];
    load_table(rotation.cosine.row(place) + pair, cosine);
    load_table(rotation.sine.row(place) + pair, sine);
#pragma unroll
    for (int k = 0; k < width; ++k) sine[k] *= rotation.direction;
    const std::int64_t step = rotation.sequence * gridDim.z;
    for (std::int64_t row = rotation.sequence * blockIdx.z + t; row < rotation.rows; row += step) {
      rotate_run<width>(rotation.x.row(row) + head * rotation.head_dimension + pair, half, cosine, sine);
    }
  }
}

template <int width, typename T>
void launch_rope(const CudaContext& context, const Rotation<T>& rotation) {
  const std::int64_t runs = rotation.heads * (rotation.half / width);
  const std::int64_t batch = divide_rounding_up(rotation.rows, rotation.sequence);
  const dim3 grid(static_cast<unsigned>(divide_rounding_up(runs, kRopeThreads)),
                  static_cast<unsigned>(std::min(rotation.sequence, kMostRopeBlocks)),
                  static_cast<unsigned>(std::min(batch, kMostRopeBlocks)));
  launch(rope_kernel<width, T>, grid, dim3(kRopeThreads), 0, context.stream, rotation);
}

}  // namespace

void run_on_cuda(const CudaContext& context, const Rope& rope) {
  if (rope.x.elements() == 0) return;
  with_storage_type(rope.x.dtype, [&](auto element) {
    using T = decltype(element);
    constexpr int kWidth = 16 / sizeof(T);
    const Rotation<T> rotation = {.x = rows_of<T>(rope.x),
                                  .rows = rope.x.rows,
                                  .heads = rope.x.columns / rope.head_dimension,
                                  .sequence = rope.places.empty() ? rope.sequence : rope.x.rows,
                                  .head_dimension = rope.head_dimension,
                                  .half = rope.cosine.columns,
                                  .cosine = rows_of<const float>(rope.cosine),
                                  .sine = rows_of<const float>(rope.sine),
                                  .direction = rope.inverse ? -1.0F : 1.0F,
                                  .places = rope.places.data()};
    if (rotation.half % kWidth == 0 && rope.head_dimension % kWidth == 0 && is_aligned<kWidth>(rotation.x) &&
        is_aligned<kTableWidth<kWidth>>(rotation.cosine) && is_aligned<kTableWidth<kWidth>>(rotation.sine)) {
      launch_rope<kWidth>(context, rotation);
    } else {
      launch_rope<1>(context, rotation);
    }
  });
}

}  // namespace strata
