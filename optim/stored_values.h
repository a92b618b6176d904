// fp32 values of a unit's state, read from how a StateFormat stores them.
#pragma once

#include <algorithm>
#include <span>

#include "engine/base/dtype.h"
#include "optim/split_master.h"

namespace strata {

/// A flat array in host memory.
struct StoredValues {
  enum class As { floats, halves, split_masters };

  As as = As::floats;
  const void* values = nullptr;         ///< floats, bf16 values, or Remainders
  const bfloat16* parameter = nullptr;  ///< of split masters: their high halves

  /// Elements [first, first + out.size()).
  void read(std::int64_t first, std::span<float> out) const {
    switch (as) {
      case As::floats:
        std::copy_n(static_cast<const float*>(values) + first, out.size(), out.begin());
        return;
      case As::halves:
        std::ranges::transform(std::span(static_cast<const bfloat16*>(values) + first, out.size()), out.begin(),
                               [](bfloat16 value) { return static_cast<float>(value); });
        return;
      case As::split_masters:
        std::ranges::transform(std::span(parameter + first, out.size()),
                               std::span(static_cast<const Remainder*>(values) + first, out.size()), out.begin(),
                               join_master);
        return;
    }
  }
};

}  // namespace strata
