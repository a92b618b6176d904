// fp32 values of a unit's state, read from how a StateFormat stores them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "optim/moment_codes.h"
#include "optim/packing.h"
#include "optim/split_master.h"
#include "optim/state_format.h"

namespace strata {

enum class StoredAs : std::uint8_t { floats, bf16, fp16, split_masters, packed, coded };

/// A flat array in host memory.
struct StoredValues {
  StoredAs as = StoredAs::floats;
  const void* values =
      nullptr;  ///< floats, bf16 or fp16 values, Remainders, a packed part, or blocks of codes
  const bfloat16* parameter = nullptr;  ///< of split masters: their high halves
  const Packing* packing = nullptr;     ///< of a packed part, and its number
  std::size_t part = 0;
  MomentCodes codes = {};  ///< of a coded moment

  /// Elements [first, first + count): floats where they are, others in `memory`. REQUIRES: that has room for
  /// them.
  std::span<const float> read(std::int64_t first, std::int64_t count, std::span<float> memory) const {
    const auto size = static_cast<std::size_t>(count);
    if (as == StoredAs::floats) return {static_cast<const float*>(values) + first, size};
    const std::span<float> out = memory.first(size);
    const auto widen = [&]<typename T>(const T* stored) {
      std::ranges::transform(std::span(stored + first, size), out.begin(),
                             [](T value) { return static_cast<float>(value); });
    };
    if (as == StoredAs::bf16) {
      widen(static_cast<const bfloat16*>(values));
    } else if (as == StoredAs::fp16) {
      widen(static_cast<const float16*>(values));
    } else if (as == StoredAs::coded) {
      decode_moment(codes, static_cast<const std::byte*>(values), first, out);
    } else if (as == StoredAs::packed) {
      read_packed(*packing, part, static_cast<const std::byte*>(values), first, out);
    } else {
      std::ranges::transform(std::span(parameter + first, size),
                             std::span(static_cast<const Remainder*>(values) + first, size), out.begin(),
                             join_master);
    }
    return out;
  }
};

}  // namespace strata
