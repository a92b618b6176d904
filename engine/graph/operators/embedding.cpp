#include "engine/graph/operators/embedding.h"

#include "engine/graph/derivation.h"

namespace strata {

void EmbeddingRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(EmbeddingForward{operands.indices(tokens), operands[table], operands[positions],
                               operands.shape().sequence, operands[out]});
}

void EmbeddingRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView out_gradient = derivation.gradient(node[out]);
  const TensorView table_gradient = derivation.parameter_gradient(node[table]);
  const TensorView positions_gradient = derivation.parameter_gradient(node[positions]);
  if (out_gradient && (table_gradient || positions_gradient))
    derivation.add(std::make_shared<EmbeddingGradientRule>(padding_token_),
                   {node[tokens], out_gradient, table_gradient, positions_gradient});
}

void EmbeddingGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(EmbeddingBackward{.tokens = operands.indices(tokens),
                                .sequence = operands.shape().sequence,
                                .out_gradient = operands[out_gradient],
                                .table_gradient = operands[table_gradient],
                                .positions_gradient = operands[positions_gradient],
                                .padding_token = padding_token_});
}

}  // namespace strata
