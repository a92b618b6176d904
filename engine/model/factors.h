// What updates keep of a tensor beside what has its shape: means or sums of squares, one for each row of a
// matrix, and for Adafactor one for each column, too.
#pragma once

#include <vector>

#include "engine/model/graph/unit.h"
#include "optim/update_policy.h"

namespace strata {

/// The vectors that the rule keeps of the tensor, one behind the other: of rows, and of columns; or of a
/// vector's elements. A factor's hf_name is the tensor's, a point, and what transformers, pytorch-optimizer
/// or PyTorch call it.
std::vector<TensorSpec> factors_of(const TensorSpec& tensor, UpdateRule rule);

/// Makes the unit's factors those of all its trained tensors.
void find_factors(Unit& unit, const std::vector<UpdatePolicy>& policies);

}  // namespace strata
