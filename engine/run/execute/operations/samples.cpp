// Samples of the model: logits become tokens.
#include <span>

#include "engine/run/execute/operations/kinds.h"

namespace strata::operations {

void join_logits(OperationContext& on, const Instruction& instruction) {
  const Operand& part = *instruction.find_operand(Role::logits);
  const std::int64_t rows = on.setup.samples->rows();
  on.meter().touch(on.address(part.buffer), part.bytes());
  on.setup.samples->join({on.address(part.buffer), dtype_of(part.type), rows, part.elements / rows},
                         on.span<float>(instruction.writes[0]));
}

void choose_tokens(OperationContext& on, const Instruction& instruction) {
  const bool has_logits = !instruction.reads.empty();
  on.setup.samples->choose(has_logits ? on.span<float>(instruction.reads[0]) : std::span<float>(),
                           on.span<double>(instruction.writes[0]));
}

void take_tokens(OperationContext& on, const Instruction& instruction) {
  on.setup.samples->take(on.span<double>(instruction.reads[0]));
}

}  // namespace strata::operations
