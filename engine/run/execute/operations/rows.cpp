// Gradients with values in few rows.
#include <algorithm>
#include <utility>

#include "base/nth.h"
#include "engine/device/row_calls.h"
#include "engine/run/execute/operations/kinds.h"

namespace strata::operations {
namespace {

/// The instruction's row numbers, and a matrix of what stands in those rows.
std::pair<std::span<const std::int32_t>, Matrix> rows_of(const OperationContext& on,
                                                         const Instruction& instruction) {
  const Operand& rows = *instruction.find_operand(Role::rows);
  const Operand& values = *instruction.find_operand(Role::row_values);
  return {on.span<std::int32_t>(rows),
          {on.address(values.buffer), dtype_of(values.type), rows.elements, values.elements / rows.elements}};
}

}  // namespace

void list_rows(OperationContext& on, const Instruction& instruction) {
  const std::span<std::int32_t> rows = on.span<std::int32_t>(instruction.writes[0]);
  const auto [first, count] = on.share(instruction).rows;
  auto end = rows.begin();
  for (const Operand& microbatch : instruction.reads) {
    for (const std::int32_t row : on.span<std::int32_t>(microbatch))
      if (first <= row && row < first + count) *end++ = row - static_cast<std::int32_t>(first);
  }
  std::sort(rows.begin(), end);
  std::fill(std::unique(rows.begin(), end), rows.end(), kNoRow);
}

void copy_rows(OperationContext& on, const Instruction& instruction) {
  const auto [rows, values] = rows_of(on, instruction);
  const Operand& gradient = *instruction.find_operand(Role::gradient);
  on.kernels.run(RowCopy{{on.address(gradient.buffer), dtype_of(gradient.type),
                          gradient.elements / values.columns, values.columns},
                         rows,
                         values});
}

void sum_rows(OperationContext& on, const Instruction& instruction) {
  const auto [rows, values] = rows_of(on, instruction);
  on.kernels.run(RowSum{.ranks = nth(on.setup.program->groups, instruction.exchange.group).ranks,
                        .rows = rows,
                        .values = values,
                        .first = on.share(instruction).first,
                        .out = on.flat(*instruction.find_operand(Role::destination))});
}

}  // namespace strata::operations
