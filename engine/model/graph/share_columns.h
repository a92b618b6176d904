// Nodes that would need whole rows of a tensor, written so that ranks can have columns of it each and
// exchange a few numbers of a row: norms, and losses of logits. Pure functions of graphs; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/graph/unit_graph.h"

namespace strata {

/// Axes that are split over `ranks` ranks.
struct ColumnSharing {
  std::span<const AxisName> axes;
  std::int64_t ranks = 1;

  /// Whether ranks have parts of the axis.
  bool splits(const Axis& axis) const;
};

/// The graph whose rules know that ranks share columns (Operator::share_columns()). Before it is fused.
UnitGraph share_columns(UnitGraph graph, const ColumnSharing& sharing);

}  // namespace strata
