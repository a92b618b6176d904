// The arithmetic of reductions in host memory: one pass over the values of all ranks. Each element is folded
// in the order of the ranks, so neither how data is cut for the journey nor who does the sum changes a bit.
// Any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/communicator.h"

namespace strata {

/// Where a result is written: past the caches if there is more of it than they hold, which saves reading
/// what is overwritten.
enum class Stores : std::uint8_t { through_caches, past_caches };

/// destination[i] = sources[0][i] ∘ sources[1][i] ∘ …, from the left. bf16 is folded in fp32 and rounded
/// once; a NaN of any source gives a NaN, of min and max too. `destination` may be one of the sources.
/// REQUIRES: a source at least; elements that are numbers.
void reduce(std::span<const void* const> sources, void* destination, std::size_t count, Element element,
            ReduceOp op, Stores stores = Stores::through_caches);

/// The same as plain loops: the oracle, and what is left over of whole vectors.
void reduce_reference(std::span<const void* const> sources, void* destination, std::size_t count,
                      Element element, ReduceOp op);

}  // namespace strata
