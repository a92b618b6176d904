// What norm.cu and norm_backward.cu share: a thread's part of a row.
#pragma once

#include <cstdint>

#include "engine/device/cuda/element.cuh"

namespace strata {

constexpr std::int64_t whole_warps(std::int64_t threads) {
  return divide_rounding_up(threads, kWarp) * kWarp;
}

/// Every blockDim.x-th run of `width` columns: up to `runs` of them, or any number if `runs` is 0. `keeps`:
/// as `Kept`, in registers; if not, they are read again each time. REQUIRES: width divides columns.
template <typename Kept, int width, int runs, bool keeps = (runs > 0)>
class ThreadRow {
 public:
  __device__ explicit ThreadRow(std::int64_t columns) : columns_(columns) {}

  /// Keeps read(column) for the thread's runs, if it `keeps` any.
  template <typename Read>
  __device__ __forceinline__ void read(const Read& read) {
    if constexpr (keeps) {
#pragma unroll
      for (int i = 0; i < runs; ++i) {
        if (column(i) < columns_) kept_[i] = read(column(i));
      }
    }
  }

  /// Calls body(i, column, what was read) for the thread's runs i = 0, 1, ..., and `read` unless it `keeps`
  /// them.
  template <typename Read, typename Body>
  __device__ __forceinline__ void for_each(const Read& read, const Body& body) const {
    if constexpr (runs == 0) {
      for (int i = 0; column(i) < columns_; ++i) body(i, column(i), read(column(i)));
    } else {
#pragma unroll
      for (int i = 0; i < runs; ++i) {
        if (column(i) >= columns_) continue;
        if constexpr (keeps) {
          body(i, column(i), kept_[i]);
        } else {
          body(i, column(i), read(column(i)));
        }
      }
    }
  }

 private:
  __device__ std::int64_t column(int i) const {
    return (std::int64_t{blockDim.x} * i + threadIdx.x) * width;
  }

  std::int64_t columns_;
  Kept kept_[keeps ? runs : 1] = {};  // an array has at least one
};

}  // namespace strata
