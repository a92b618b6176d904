#include "engine/model/updated_matrices.h"

namespace strata {

std::vector<UpdatedMatrix> updated_matrices(const Model& model, const Unit& unit) {
  std::vector<UpdatedMatrix> matrices;
  for (const TensorSpec& tensor : unit.tensors) {
    if (tensor.flat == Flat::trained && needs_matrices(model.policies[tensor.policy].rule))
      matrices.push_back({tensor.offset, tensor.hf_shape[0], tensor.hf_shape[1]});
  }
  return matrices;
}

}  // namespace strata
