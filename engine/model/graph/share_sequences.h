// Passes of ranks that share sequences. Keys and values go round a ring of them (Liu et al., Ring Attention,
// 2023), and each rank joins what its tokens see of them, step by step. Pure values; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/model/graph/derive.h"

namespace strata {

/// A pass that ranks share sequences in, while it is made: to it a rule appends what stands in a node's
/// place.
class SequenceSharing {
 public:
  SequenceSharing(UnitGraph& pass, std::int64_t ranks, std::vector<Node>& behind_backward)
      : pass_(pass), ranks_(ranks), behind_backward_(behind_backward) {}

  std::int64_t ranks() const { return ranks_; }
  /// REQUIRES: nothing is added while the reference is in use.
  const Tensor& tensor(const TensorView& view) const { return pass_.tensor(view); }
  TensorView add(Tensor tensor) { return {pass_.add(std::move(tensor))}; }
  void add(std::shared_ptr<const Operator> rule, std::vector<TensorView> operands) {
    pass_.nodes.push_back({std::move(rule), std::move(operands)});
  }
  /// A node that ends the unit's backward pass. REQUIRES: this is the forward pass.
  void add_behind_backward(std::shared_ptr<const Operator> rule, std::vector<TensorView> operands) {
    behind_backward_.push_back({std::move(rule), std::move(operands)});
  }

 private:
  UnitGraph& pass_;
  std::int64_t ranks_;
  std::vector<Node>& behind_backward_;
};

/// Both passes of a unit of `ranks` ranks that share sequences. A rule says what stands in its node's place
/// (Operator::share_sequences()); in the place of each attention that is a ring.
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
