// Stands in for engine/device/cuda/launch.cuh when tests compile .cu files for the CPU: the built-ins of
// CUDA C++ that kernels use, as C++, and launch(), which gives the kernel to its stream. Compile with
// -ffp-contract=off, since the functions named _rn must not be fused, and -Wno-unknown-pragmas, since
// "unroll" means something to nvcc only.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "tests/cuda_emulation/emulation.h"
#include "tests/cuda_emulation/stream.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after another

using cudaStream_t = CUstream_st*;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

constexpr int warpSize = 32;

inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float a) {
  return std::sqrt(a);
}
inline double __dsqrt_rn(double a) {
  return std::sqrt(a);
}
inline float rsqrtf(float a) {
  return 1.0F / std::sqrt(a);
}

inline void __syncthreads() {
  strata::cuda_emulation::block_barrier();
}
inline void __syncwarp(unsigned mask = 0xffffffffU) {
  strata::cuda_emulation::exchange(strata::cuda_emulation::WarpOperation::sync, mask, 0, 0);
}

namespace strata {
namespace cuda_emulation {

template <typename T>
T shuffle(WarpOperation operation, unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(operation, mask, bits, source);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The lanes of a warp that shuffle among each other: `width` of them, a power of two.
struct Segment {
  unsigned first, last;
  explicit Segment(int width)
      : first(lane() & ~static_cast<unsigned>(width - 1)), last(first + static_cast<unsigned>(width) - 1) {}
};

}  // namespace cuda_emulation
}  // namespace strata

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  using namespace strata::cuda_emulation;
  return shuffle(WarpOperation::shuffle, mask, value,
                 Segment(width).first | (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1)));
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  using namespace strata::cuda_emulation;
  return shuffle(WarpOperation::shuffle_up, mask, value,
                 lane() < Segment(width).first + delta ? lane() : lane() - delta);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  using namespace strata::cuda_emulation;
  return shuffle(WarpOperation::shuffle_down, mask, value,
                 lane() + delta > Segment(width).last ? lane() : lane() + delta);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
  using namespace strata::cuda_emulation;
  const unsigned source = lane() ^ static_cast<unsigned>(lane_mask);
  return shuffle(WarpOperation::shuffle_xor, mask, value, source > Segment(width).last ? lane() : source);
}

namespace strata {

/// Adds kernel(arguments...) to the stream; null: runs it at once.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
  cuda_emulation::check_launch(grid, block, shared_bytes);
  auto run = [=, values = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
    cuda_emulation::run_grid(grid, block, shared_bytes, [&] { std::apply(kernel, values); });
  };
  if (stream == nullptr) return run();
  if (stream->computes()) stream->add(run);
}

/// The dynamic shared memory of the block, aligned to 16 bytes; NaN when the block starts.
template <typename T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(cuda_emulation::shared_bytes());
}

}  // namespace strata
