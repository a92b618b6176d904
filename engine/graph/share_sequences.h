// Passes of ranks that share sequences. Keys and values go round a ring of them (Liu et al., Ring Attention,
// 2023), and each rank joins what its tokens see of them, step by step. Pure values; any thread.
#pragma once

#include "engine/graph/derive.h"

namespace strata {

/// Both passes of a unit of `ranks` ranks that share sequences, with a ring in the place of each attention.
///
/// Forward: in step 0 a rank's tokens meet its own keys, in step i those of the rank i before it. While step
/// i computes, its keys and values go on to the next rank. Backward they go round once more; a rank's part of
/// the gradients of the keys it has met joins what the ranks before have made of them, and travels on behind
/// them, in fp32, to the rank whose keys they are, which adds its own part last. So each sum has one order:
/// that of the ring, from the rank behind the owner.
///
/// What travels lies in regions of its own, two of them for keys and values and two for their gradients,
/// which take turns, so that nothing else that is computed waits for it. All ranks have one graph: which
/// tokens one has is told by MicrobatchShape::context when it runs.
///
/// A tally counts the rank's tokens until the unit that has the loss adds up all ranks', in front of that
/// loss; behind its backward pass the microbatch's tally is that sum, for other units' gradients.
DerivedGraph share_sequences(const DerivedGraph& graph, std::int64_t ranks);

}  // namespace strata
