// Random initial weights by seed, as transformers initialises each family. A value depends only on the seed,
// the tensor's HF name and the element's index, so it is the same for every layout and for any split of the
// work over threads.
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/architectures/architecture.h"
#include "engine/model/graph/unit.h"

namespace strata {

struct Model;

/// Elements [first, first + out.size()) of one tensor. They are zeros, ones, what Init says of an adapter, or
/// normal with deviation initializer_range. GPT-2's projections into the residual stream have that divided by
/// sqrt(2 · layers) (Radford et al. 2019). REQUIRES: the tensor does not begin with norms (weight_norms.h).
void initialize_tensor(const Architecture& architecture, const TensorSpec& tensor, std::uint64_t seed,
                       std::int64_t first, std::span<float> out);

}  // namespace strata
