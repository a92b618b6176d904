#include "engine/run/execute/operations/context.h"

#include <algorithm>
#include <utility>

#include "base/nth.h"

namespace strata {

OperationContext::OperationContext(OperationSetup of_program)
    : setup(std::move(of_program)),
      kernels(setup.streams->of(Lane::compute).kernels()),
      workers(setup.threads) {}

Matrix OperationContext::flat(const Operand& operand) const {
  return {address(operand.buffer), dtype_of(operand.type), 1, operand.elements};
}

const UnitShare& OperationContext::share(const Instruction& instruction) const {
  return nth(setup.shares, instruction.unit);
}

std::int64_t OperationContext::loss_terms(std::int64_t step) const {
  const std::int64_t terms = setup.loss_terms ? setup.loss_terms(step) : setup.program->loss_terms;
  return std::max<std::int64_t>(terms, 1);
}

}  // namespace strata
