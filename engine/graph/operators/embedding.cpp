#include "engine/graph/operators/embedding.h"

#include "engine/graph/derivation.h"

namespace strata {
namespace {

template <typename Rule>
std::shared_ptr<const Operator> rule_of_rows(std::string_view variable, const AxisPart& part,
                                             std::int32_t padding_token) {
  if (variable != "v") return nullptr;
  return std::make_shared<Rule>(padding_token, static_cast<std::int32_t>(part.first));
}

}  // namespace

std::shared_ptr<const Operator> EmbeddingRule::of_part(std::string_view variable,
                                                       const AxisPart& part) const {
  return rule_of_rows<EmbeddingRule>(variable, part, padding_token_);
}

void EmbeddingRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(EmbeddingForward{operands.indices(tokens), operands[table], operands[positions],
                               operands.shape().sequence, operands[out], first_row_});
}

void EmbeddingRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView out_gradient = derivation.gradient(node[out]);
  if (!out_gradient) return;
  if (const TensorView gradient = derivation.parameter_gradient(node[table]))
    derivation.add(std::make_shared<EmbeddingGradientRule>(padding_token_),
                   {node[tokens], out_gradient, gradient});
  if (const TensorView gradient = derivation.parameter_gradient(node[positions]))
    derivation.add(std::make_shared<PositionsGradientRule>(), {node[tokens], out_gradient, gradient});
}

std::shared_ptr<const Operator> EmbeddingGradientRule::of_part(std::string_view variable,
                                                               const AxisPart& part) const {
  return rule_of_rows<EmbeddingGradientRule>(variable, part, padding_token_);
}

void EmbeddingGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(EmbeddingBackward{.tokens = operands.indices(tokens),
                                .sequence = operands.shape().sequence,
                                .out_gradient = operands[out_gradient],
                                .table_gradient = operands[table_gradient],
                                .positions_gradient = {},
                                .padding_token = padding_token_,
                                .first_row = first_row_});
}

void PositionsGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(EmbeddingBackward{.tokens = operands.indices(tokens),
                                .sequence = operands.shape().sequence,
                                .out_gradient = operands[out_gradient],
                                .table_gradient = {},
                                .positions_gradient = operands[positions_gradient]});
}

}  // namespace strata
