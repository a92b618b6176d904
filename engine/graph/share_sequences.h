// Passes of ranks that share sequences. Keys and values go round a ring of them (Liu et al., Ring Attention,
// 2023), and each rank joins what its tokens see of them, step by step. Pure values; any thread.
#pragma once

#include "engine/graph/derive.h"

namespace strata {

/// Both passes of a unit of `ranks` ranks that share sequences, with a ring in the place of each attention.
///
/// Forward: in step 0 a rank's tokens meet its own keys, in step i those of the rank i before it. While step
/// i computes, its keys and values travel to the next rank. Backward they go round once more, and the
/// gradients of keys and values travel behind them, in fp32. Each rank adds its part to the gradients of the
/// keys that it has met. The owner of the keys adds its own part last. So each sum has one order: that of the
/// ring, from the rank behind the owner.
///
/// Travelling values lie in regions of their own: two for keys and values, and two for their gradients. The
/// two take turns, so that no other computing waits for them. All ranks have one graph.
/// MicrobatchShape::context says at run time which tokens a rank has.
///
/// A tally counts the rank's tokens until the unit that has the loss adds up all ranks' tallies, before the
/// loss. After that unit's backward pass the microbatch's tally is the sum, for other units' gradients.
DerivedGraph share_sequences(const DerivedGraph& graph, std::int64_t ranks);

}  // namespace strata
