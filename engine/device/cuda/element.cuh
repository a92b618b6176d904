// What kernels of every family need: storage types to and from float, accesses of several neighbouring
// elements at once, sums and maxima over a warp or a block in a fixed order.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/matrix.h"

namespace strata {

__device__ __forceinline__ float to_float(float value) {
  return value;
}
__device__ __forceinline__ float to_float(bfloat16 value) {
  return static_cast<float>(value);
}
__device__ __forceinline__ float to_float(float16 value) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  return static_cast<float>(value);
#endif
}

/// The bits of T(value), but for a NaN, whose payload the GPU drops: the branch for it would cost more than
/// the conversion.
template <typename T>
__device__ __forceinline__ T from_float(float value) {
#if defined(__CUDA_ARCH__)
  if constexpr (!std::is_same_v<T, float>) {
    T result;
    if constexpr (std::is_same_v<T, bfloat16>) {
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    } else {
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    }
    return result;
  }
#endif
  return T(value);
}

/// Neighbouring elements, moved by one instruction of up to 16 bytes.
template <typename T, int count>
struct alignas(sizeof(T) * count) Run {
  static_assert(sizeof(T) * count <= 16);
  T values[count];
};

/// REQUIRES: is_aligned<count>(from).
template <int count, typename T>
__device__ __forceinline__ Run<std::remove_const_t<T>, count> load_run(T* from) {
  return *reinterpret_cast<const Run<std::remove_const_t<T>, count>*>(from);
}

/// REQUIRES: is_aligned<count>(to).
template <int count, typename T>
__device__ __forceinline__ void store_run(const Run<T, count>& run, T* to) {
#if defined(__CUDA_ARCH__)
  // The compiler takes an assignment apart into stores of single elements wherever it keeps these apart.
  if constexpr (sizeof run == 16) {
    return __stwb(reinterpret_cast<uint4*>(to), std::bit_cast<uint4>(run));
  } else if constexpr (sizeof run == 8) {
    return __stwb(reinterpret_cast<uint2*>(to), std::bit_cast<uint2>(run));
  }
#endif
  *reinterpret_cast<Run<T, count>*>(to) = run;
}

/// The bits of a run that is in flight or kept for later. Elements of 16 bits would be taken apart at once,
/// which waits for them and needs twice the registers.
template <typename T, int count>
using Bits = std::conditional_t<sizeof(T) * count == 2, Run<std::uint16_t, 1>,
                                Run<std::uint32_t, static_cast<int>(sizeof(T)) * count / 4>>;

/// REQUIRES: is_aligned<count>(from).
template <int count, typename T>
__device__ __forceinline__ Bits<std::remove_const_t<T>, count> load_bits(T* from) {
  using Loaded = Bits<std::remove_const_t<T>, count>;
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const Loaded*>(from);
#else
  return std::bit_cast<Loaded>(load_run<count>(from));
#endif
}

template <int count, typename T>
__device__ __forceinline__ void to_floats(const Run<T, count>& run, float (&values)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = to_float(run.values[i]);
}

template <typename T, int count>
__device__ __forceinline__ Run<T, count> from_floats(const float (&values)[count]) {
  Run<T, count> run;
#pragma unroll
  for (int i = 0; i < count; ++i) run.values[i] = from_float<T>(values[i]);
  return run;
}

/// A matrix as kernels see it.
template <typename T>
struct Rows {
  T* data;
  std::int64_t stride;

  __device__ T* row(std::int64_t row) const { return data + row * stride; }
};

/// REQUIRES: T is the C++ type of the matrix' dtype. Of an empty view: null.
template <typename T>
Rows<T> rows_of(const Matrix& x) {
  return x ? Rows<T>{x.row<T>(0), x.stride} : Rows<T>{nullptr, 0};
}

/// Runs of `count` elements may start at `data`.
template <int count, typename T>
bool is_aligned(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (sizeof(T) * count) == 0;
}
/// Runs may start at every multiple of `count` columns.
template <int count, typename T>
bool is_aligned(const Rows<T>& x) {
  return is_aligned<count>(x.data) && x.stride % count == 0;
}

/// Calls body with the columns of one access: `most` if all rows consist of such runs, or 1.
template <int most, typename Body, typename... Operands>
void with_run(std::int64_t columns, const Body& body, const Rows<Operands>&... operands) {
  if (columns % most == 0 && (is_aligned<most>(operands) && ...)) {
    body(std::integral_constant<int, most>());
  } else {
    body(std::integral_constant<int, 1>());
  }
}

/// The built-in warpSize isn't known when a kernel is compiled.
constexpr int kWarp = 32;

struct Sum {
  __device__ static float combine(float a, float b) { return a + b; }
};
struct Maximum {
  /// Gives the number, if one of the two is NaN.
  __device__ static float combine(float a, float b) { return fmaxf(a, b); }
};

/// Combines the values of a whole warp; every lane gets the same bits.
template <typename Reduction>
__device__ __forceinline__ float over_warp(float value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = Reduction::combine(value, __shfl_xor_sync(0xffffffffU, value, distance));
  }
  return value;
}

/// Each value over a row of the block's threads, which are whole warps; every thread gets the same bits.
/// If a row has more than one warp the block has one row, and all of its threads must call this.
template <typename Reduction, int count>
__device__ __forceinline__ void each_over_block(float (&values)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = over_warp<Reduction>(values[i]);
  if (blockDim.x == kWarp) return;
  __shared__ float of_warp[count][kWarp];
  __syncthreads();  // all threads have read what an earlier call left there
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (threadIdx.x % kWarp == 0) of_warp[i][threadIdx.x / kWarp] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < count; ++i) {
    values[i] = of_warp[i][0];
    for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) {
      values[i] = Reduction::combine(values[i], of_warp[i][warp]);
    }
  }
}

__device__ __forceinline__ float block_sum(float value) {
  float values[] = {value};
  each_over_block<Sum>(values);
  return values[0];
}
__device__ __forceinline__ float block_max(float value) {
  float values[] = {value};
  each_over_block<Maximum>(values);
  return values[0];
}

constexpr std::int64_t divide_rounding_up(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace strata
