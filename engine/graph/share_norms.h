// Norms over columns that ranks share out: of the row's sum of squares each rank makes a part. Pure
// functions.
#pragma once

#include <span>

#include "engine/graph/unit_graph.h"

namespace strata {

/// The graph with its RMS norms over columns that have one of the axes written as rules that may be split on
/// it: ranks then add up a number per row instead of gathering rows.
UnitGraph share_norms(UnitGraph graph, std::span<const AxisName> axes);

}  // namespace strata
