// What an update works on, as pointers into one memory: the host's or a device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/enum_array.h"
#include "optim/state_format.h"
#include "optim/update_rule.h"

namespace strata {

/// A stretch of a unit's parameters and everything of its shape.
struct OptimizerState {
  UpdateRule rule = UpdateRule::adamw;
  DType precision = DType::bf16;  ///< of gradient and parameter
  StateFormat format = {};
  std::int64_t elements = 0;
  void* master = nullptr;                 ///< floats or Remainders, or the parameter that is its own master
  EnumArray<Moment, void*> moments = {};  ///< as format.format_of() says; null: not kept
  const void* gradient = nullptr;
  void* parameter = nullptr;  ///< the rounded master, or its high half; not used if it is its own master
  std::uint32_t unit = 0;     ///< with `first` names the random bits that round moments and parameters
  std::int64_t first = 0;     ///< index of the first element in the unit. Of a coded moment, the memory
                              ///< begins with the block that it lies in

  void*& of(Moment moment) { return moments[moment]; }
  void* of(Moment moment) const { return moments[moment]; }

  /// Counts a moment's bytes: those of all blocks that the elements lie in, if it is coded.
  Bytes moment_bytes(Moment moment) const {
    const std::int64_t before = format.format_of(moment) == MomentFormat::coded ? first % kCodedBlock : 0;
    return format.moment_bytes(moment, before + elements);
  }

  /// Elements [from, from + count).
  OptimizerState part(std::int64_t from, std::int64_t count) const {
    const auto moved = [](auto* array, Bytes bytes) -> decltype(array) {
      using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(array)>>,
                                      const std::byte, std::byte>;
      return array == nullptr ? nullptr : static_cast<Byte*>(array) + bytes;
    };
    const auto at = [&](auto* array, Bytes element) { return moved(array, from * element); };
    OptimizerState result = *this;
    result.elements = count;
    result.master = at(master, format.master == MasterFormat::fp32 ? sizeof(float) : sizeof(bfloat16));
    result.moments.for_each([&](Moment key, void*& moment) {
      moment = moved(moment, format.moment_offset(key, first, first + from));
    });
    result.gradient = at(gradient, size_of(precision));
    if (precision != DType::fp32) result.parameter = at(parameter, size_of(precision));
    result.first += from;
    return result;
  }
};

}  // namespace strata
