// A unit of random weights.
#pragma once

#include "engine/model/initialize.h"
#include "engine/model/weight_norms.h"

namespace strata::test {

/// A range of a unit as runs without folders begin with it. REQUIRES: out.size() == range.count.
inline void initialize_unit(const Architecture& architecture, const Unit& unit, std::uint64_t seed,
                            FlatRange range, std::span<float> out) {
  const ReadTensor read = [&](const TensorSpec& tensor, std::int64_t first, std::span<float> values) {
    initialize_tensor(architecture, tensor, seed, first, values);
  };
  fill_unit(unit, range, read, read, out);
}

}  // namespace strata::test
