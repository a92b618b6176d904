// What tokens say of where they stand: of several documents in a sequence, and of texts that rotate by their
// lengths. Pure functions of graphs; any thread.
#pragma once

#include <cstddef>

#include "base/sequence_form.h"
#include "engine/model/graph/unit_graph.h"

namespace strata {

/// The data array of where tokens stand; tokens and targets stand before it. Its parts: token_places().
inline constexpr std::size_t kPlacesArray = 2;

/// The unit as it computes texts of this form: what looks at positions reads the data array kPlacesArray,
/// called "places". Within documents attention stays in each, and positions begin anew. By length rotations
/// read tables with kRotaryRowsOfPlace rows for each position. Other units stay as they are.
UnitGraph give_places(UnitGraph graph, const SequenceForm& form);

/// Whether give_places() has made something of the unit.
bool reads_places(const UnitGraph& graph);

}  // namespace strata
