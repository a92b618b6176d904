// Which of a unit's tensors are orthogonalized before they are updated.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model.h"

namespace strata {

/// A whole matrix in a unit's trained flat parameter.
struct UpdatedMatrix {
  std::int64_t offset = 0, rows = 0, columns = 0;
};

/// In their order. REQUIRES: no ranks share tensors of the unit.
std::vector<UpdatedMatrix> updated_matrices(const Model& model, const Unit& unit);

}  // namespace strata
