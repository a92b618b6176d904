#include "engine/model/graph/operators/embedding.h"

#include <algorithm>

#include "base/nth.h"
#include "engine/device/row_calls.h"
#include "engine/model/graph/derivation.h"

namespace strata {
namespace {

template <typename Rule>
std::shared_ptr<const Operator> rule_of_rows(std::string_view variable, const AxisPart& part,
                                             std::int32_t padding_token) {
  if (variable != "v") return nullptr;
  return std::make_shared<Rule>(padding_token, static_cast<std::int32_t>(part.first));
}

/// Rows of a microbatch whose positions follow one another from `position`, and begin again every `sequence`.
struct TokenStretch {
  std::int64_t row, rows, position, sequence;
  std::span<const std::int32_t> tokens;
};

/// All of a microbatch is one, of equal sequences or if places say the positions; if ranks share sequences
/// each half of what this one has of each. REQUIRES: operand 0 is the tokens.
template <typename Visit>
void for_each_stretch(const Operands& operands, const Places& places, const Visit& visit) {
  const MicrobatchShape& shape = operands.shape();
  const bool is_whole = shape.context.ranks == 1 || !places.empty();
  const std::int64_t rows = is_whole ? shape.tokens() : shape.sequence / 2;
  for (std::int64_t row = 0; row < shape.tokens(); row += rows)
    visit(TokenStretch{row, rows,
                       is_whole ? 0 : shape.context.positions(shape.sequence).at(row % shape.sequence),
                       std::min(rows, shape.sequence), slice(operands.indices(0), row, rows)});
}

Matrix from_row(const Matrix& table, std::int64_t row) {
  return table ? table.row_slice(row, table.rows - row) : table;
}

}  // namespace

std::shared_ptr<const Operator> EmbeddingRule::of_part(std::string_view variable,
                                                       const AxisPart& part) const {
  return rule_of_rows<EmbeddingRule>(variable, part, padding_token_);
}

void EmbeddingRule::run(Kernels& kernels, const Operands& operands) const {
  const Places of_tokens = operands.indices(places);
  for_each_stretch(operands, of_tokens, [&](const TokenStretch& at) {
    kernels.run(EmbeddingForward{at.tokens, operands[table], from_row(operands[positions], at.position),
                                 at.sequence, operands[out].row_slice(at.row, at.rows), first_row_,
                                 of_tokens});
  });
}

void EmbeddingRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView out_gradient = derivation.gradient(node[out]);
  if (!out_gradient) return;
  if (const TensorView gradient = derivation.parameter_gradient(node[table]))
    derivation.add(std::make_shared<EmbeddingGradientRule>(padding_token_),
                   {node[tokens], out_gradient, gradient});
  if (const TensorView gradient = derivation.parameter_gradient(node[positions]))
    derivation.add(std::make_shared<PositionsGradientRule>(),
                   {node[tokens], out_gradient, gradient, node[places]});
}

TokenOperands EmbeddingRule::token_operands(const Node& node) const {
  if (!node[positions]) return {};
  return {.places = places};
}

/// Each token has a position of its own.
bool EmbeddingRule::decode(Kernels& kernels, const Operands& operands, const DecodeStep& step) const {
  if (!operands[positions]) return false;
  for (std::int64_t i = 0; i < std::ssize(step.lengths); ++i) {
    const auto number = static_cast<std::size_t>(i);
    kernels.run(
        EmbeddingForward{.tokens = operands.indices(tokens).subspan(number, 1),
                         .table = operands[table],
                         .positions = operands[positions].row_slice(step.lengths_on_host[number] - 1, 1),
                         .sequence = 1,
                         .out = operands[out].row_slice(i, 1)});
  }
  return true;
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
  const Places of_tokens = operands.indices(places);
  for_each_stretch(operands, of_tokens, [&](const TokenStretch& at) {
    kernels.run(EmbeddingBackward{.tokens = at.tokens,
                                  .sequence = at.sequence,
                                  .out_gradient = operands[out_gradient].row_slice(at.row, at.rows),
                                  .table_gradient = {},
                                  .positions_gradient = from_row(operands[positions_gradient], at.position),
                                  .places = of_tokens});
  });
}

}  // namespace strata
