// What norm.cu and norm_backward.cu share: a thread's part of a row.
#pragma once

#include <cstdint>

#include "engine/device/cuda/element.cuh"

namespace strata {

constexpr std::int64_t whole_warps(std::int64_t threads) {
  return divide_rounding_up(threads, kWarp) * kWarp;
}

/// Every blockDim.x-th run of `width` columns: as `Kept`, in registers, if there are up to `runs` of them;
/// read again each time if `runs` is 0. REQUIRES: width divides columns.
template <typename Kept, int width, int runs>
class ThreadRow {
 public:
  __device__ explicit ThreadRow(std::int64_t columns) : columns_(columns) {}

  /// Calls body(i, column, read(column)) for the thread's runs i = 0, 1, ... The first pass.
  template <typename Read, typename Body>
  __device__ __forceinline__ void for_each_first(const Read& read, const Body& body) {
#pragma unroll
    for (int i = 0; i < runs; ++i) {
      if (column(i) < columns_) kept_[i] = read(column(i));
    }
    for_each(read, body);
  }

  /// Calls body(i, column, what was read), and `read` only if `runs` is 0.
  template <typename Read, typename Body>
  __device__ __forceinline__ void for_each(const Read& read, const Body& body) const {
    if constexpr (runs == 0) {
      for (int i = 0; column(i) < columns_; ++i) body(i, column(i), read(column(i)));
    } else {
#pragma unroll
      for (int i = 0; i < runs; ++i) {
        if (column(i) < columns_) body(i, column(i), kept_[i]);
      }
    }
  }

 private:
  __device__ std::int64_t column(int i) const {
    return (std::int64_t{blockDim.x} * i + threadIdx.x) * width;
  }

  std::int64_t columns_;
  Kept kept_[runs > 0 ? runs : 1] = {};
};

}  // namespace strata
