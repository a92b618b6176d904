// What dropout knows of a microbatch's rows: for each token a number of its own, which the run's data bring.
// Pure functions of graphs; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/graph/within_documents.h"

namespace strata {

/// The data array of row keys: it stands behind all others.
constexpr std::size_t row_keys_array(bool has_places) {
  return has_places ? kPlacesArray + 1 : kPlacesArray;
}

/// The site of a dropout that joins the unit's.
std::uint32_t next_site(const UnitGraph& graph);

/// The unit with dropouts that read the data array of this number, called "row_keys". Other units stay as
/// they are.
UnitGraph give_row_keys(UnitGraph graph, std::size_t array);

}  // namespace strata
