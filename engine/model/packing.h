// Which of a model's parameters may be packed, and how each unit's are.
#pragma once

#include <cstdint>

#include "engine/model/model.h"
#include "optim/packing.h"

namespace strata {

/// Packs those matrices of one of a unit's flat parameters of which products round all that they multiply, in
/// `parts` parts of `part_elements`. Empty if there is none.
Packing packing_of(const Model& model, const Unit& unit, Flat flat, std::int64_t part_elements,
                   std::int64_t parts);

}  // namespace strata
