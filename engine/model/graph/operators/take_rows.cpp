#include "engine/model/graph/operators/take_rows.h"

#include <stdexcept>

#include "engine/device/row_calls.h"
#include "engine/model/graph/derivation.h"

namespace strata {

std::shared_ptr<const Operator> TakeRowsRule::of_part(std::string_view variable, const AxisPart& part) const {
  return variable == "t" ? std::make_shared<TakeRowsRule>(part.part) : nullptr;
}

void TakeRowsRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(EmbeddingForward{.tokens = operands.indices(rows),
                               .table = operands[x],
                               .sequence = 1,
                               .out = operands[out],
                               .first_row = static_cast<std::int32_t>(part_ * operands[x].rows)});
}

void TakeRowsRule::differentiate(const Node& node, Derivation& derivation) const {
  if (derivation.gradient(node[out]))
    throw std::logic_error("rows are taken where nothing is trained, so take_rows has no derivative");
}

}  // namespace strata
