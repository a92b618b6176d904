// Many of CounterRandom's normals at once, by vector code: the same bits on every instruction set.
#pragma once

#include <cstdint>
#include <span>

namespace strata {

/// out[i] = scale * CounterRandom(seed, stream).normal(first + i), to the bit.
void scaled_normals(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, float scale,
                    std::span<float> out);

}  // namespace strata
