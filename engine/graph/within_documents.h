// Several documents in a sequence. Pure functions of graphs; any thread.
#pragma once

#include "engine/graph/unit_graph.h"

namespace strata {

/// The data array of tokens' places in their documents; tokens and targets stand before it.
inline constexpr std::size_t kPlacesArray = 2;

/// The unit with attention that stays within documents, and with positions that begin anew in each: whatever
/// looks at positions reads the data array kPlacesArray, called "places". Other units stay as they are.
UnitGraph keep_within_documents(UnitGraph graph);

/// Whether keep_within_documents() has made something of the unit.
bool reads_places(const UnitGraph& graph);

}  // namespace strata
