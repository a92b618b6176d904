// A unit whose passes several ranks share, as one of the ranks has it. Axes are split over the ranks by name
// (layout.h), tensors have the rank's sizes, and the graphs have the exchanges between ranks. Pure values;
// any thread.
#pragma once

#include <vector>

#include "engine/model/graph/derive.h"
#include "engine/model/graph/layout.h"
#include "engine/model/graph/unit.h"

namespace strata {

/// Axes split over `ranks` ranks, as one of them has them.
struct AxisSplit {
  std::vector<AxisName> axes;
  std::int64_t ranks = 1, rank = 0;
  /// Those of the axes that need not divide. All ranks' parts are equally long; what the last one's has
  /// beyond the axis is padding, whose parameters and gradients are zeros.
  std::vector<AxisName> padded = {};

  friend bool operator==(const AxisSplit&, const AxisSplit&) = default;
};

/// What a rank has of an axis: stretches of it, in their order; neighbours are joined.
std::vector<Stretch> stretches_of(const Axis& axis, const AxisSplit& split);

/// The passes of a whole unit whose axes are going to be split: written so that ranks exchange little.
/// `split`: of any rank.
DerivedGraph derive_shared(const UnitGraph& graph, const AxisSplit& split);

struct SplitUnit {
  DerivedGraph graph;
  /// What the rank has a part of stands before what all ranks have alike.
  Unit unit;
};

/// One rank's part. `unit` is any of those that `whole`, from derive_shared(), is the graph of. Throws
/// ConfigError if an axis cannot be split so often.
SplitUnit split_unit(const Unit& unit, const DerivedGraph& whole, const AxisSplit& split);

}  // namespace strata
