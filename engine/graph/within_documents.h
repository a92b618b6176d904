// Several documents in a sequence. Pure functions of graphs; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/graph/unit_graph.h"

namespace strata {

/// The data array of tokens' places in their documents; tokens and targets stand before it. A model with
/// rotations that differ by documents' lengths has a second part of it: each token's rotary_row().
inline constexpr std::size_t kPlacesArray = 2;

/// The unit with attention that stays within documents, and with positions that begin anew in each: whatever
/// looks at positions reads the data array kPlacesArray, called "places". Rotations whose number is true in
/// `by_length` read its second part, and tables with kRotaryRowsOfPlace rows for each position. Other units
/// stay as they are.
UnitGraph keep_within_documents(UnitGraph graph, const std::vector<bool>& by_length = {});

/// Whether keep_within_documents() has made something of the unit.
bool reads_places(const UnitGraph& graph);

}  // namespace strata
