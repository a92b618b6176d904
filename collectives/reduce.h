// The arithmetic of reductions in host memory: one pass over the values of all ranks. Each element is folded
// in the order of the ranks, so neither how data is cut for the journey nor who does the sum changes a bit.
// Any thread may call.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/communicator.h"

namespace strata {

/// destination[i] = sources[0][i] ∘ sources[1][i] ∘ …, from the left. bf16 is folded in fp32 and rounded
/// once; a NaN of any source gives a NaN, of min and max too. `destination` may be one of the sources.
/// REQUIRES: a source, and an element other than byte.
void reduce(std::span<const void* const> sources, void* destination, std::size_t count, Element element,
            ReduceOp op);

/// The same as plain loops: the oracle, and what is left over of whole vectors.
void reduce_reference(std::span<const void* const> sources, void* destination, std::size_t count,
                      Element element, ReduceOp op);

}  // namespace strata
