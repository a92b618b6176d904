// Rotations of pairs of elements, for every kernel that makes them: rope.cu, head_norm.cu.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/device/cuda/element.cuh"

namespace strata {

/// Elements of a table's row that one access reads.
template <int width>
constexpr int kTableWidth = std::min(width, 4);

/// REQUIRES: is_aligned<kTableWidth<width>>(from).
template <int width>
__device__ __forceinline__ void load_table(const float* from, float (&values)[width]) {
#pragma unroll
  for (int i = 0; i < width; i += kTableWidth<width>) {
    const auto run = load_run<kTableWidth<width>>(from + i);
#pragma unroll
    for (int k = 0; k < kTableWidth<width>; ++k) values[i + k] = run.values[k];
  }
}

/// Turns pairs (first, second), or with negative sines back.
template <int width>
__device__ __forceinline__ void rotate(float (&first)[width], float (&second)[width],
                                       const float (&cosine)[width], const float (&sine)[width]) {
#pragma unroll
  for (int k = 0; k < width; ++k) {
    const float turned = first[k] * cosine[k] - second[k] * sine[k];
    second[k] = second[k] * cosine[k] + first[k] * sine[k];
    first[k] = turned;
  }
}

}  // namespace strata
