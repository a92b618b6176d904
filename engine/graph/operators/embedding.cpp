#include "engine/graph/operators/embedding.h"

#include "engine/graph/derivation.h"

namespace strata {

void EmbeddingRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(EmbeddingForward{operands.indices(tokens), operands[table], operands[positions],
                               operands.shape().sequence, operands[out]});
}

void EmbeddingRule::differentiate(const Node& node, Derivation& derivation) const {
  if (const TensorView out_gradient = derivation.gradient(node[out]))
    derivation.add(std::make_shared<EmbeddingGradientRule>(padding_token_),
                   {node[tokens], out_gradient, derivation.parameter_gradient(node[table]),
                    derivation.parameter_gradient(node[positions])});
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
