// What an AdamW update works on, as pointers into one memory: the host's or a device's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "optim/state_format.h"

namespace strata {

/// A stretch of a unit's parameters and everything of its shape.
struct AdamWState {
  DType precision = DType::bf16;  ///< of gradient and parameter
  StateFormat format = {};
  std::int64_t elements = 0;
  void* master = nullptr;   ///< floats or Remainders; in fp32 the parameter itself
  void* exp_avg = nullptr;  ///< of format.moments, as exp_avg_sq
  void* exp_avg_sq = nullptr;
  const void* gradient = nullptr;
  void* parameter = nullptr;  ///< the rounded master, or its high half; not used in fp32
  std::uint32_t unit = 0;     ///< with `first` names the random bits that round the moments
  std::int64_t first = 0;     ///< index of the first element in the unit

  /// Elements [from, from + count).
  AdamWState part(std::int64_t from, std::int64_t count) const {
    const auto at = [from](void* array, Bytes element) {
      return static_cast<std::byte*>(array) + from * element;
    };
    AdamWState result = *this;
    result.elements = count;
    result.master = at(master, format.split_master ? sizeof(Remainder) : sizeof(float));
    result.exp_avg = at(exp_avg, format.moment_bytes());
    result.exp_avg_sq = at(exp_avg_sq, format.moment_bytes());
    result.gradient = static_cast<const std::byte*>(gradient) + from * size_of(precision);
    if (precision != DType::fp32) result.parameter = at(parameter, size_of(precision));
    result.first += from;
    return result;
  }
};

}  // namespace strata
