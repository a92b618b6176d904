#include "engine/graph/segment.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace strata {
Segment::Segment(std::vector<Step> steps, const MicrobatchShape& shape, std::int64_t chunk_rows)
    : steps_(std::move(steps)), shape_(shape), chunk_rows_(chunk_rows) {
  for (const Step& step : steps_) {
    assert(step.operands.size() <= kMostOperands);
    const std::vector<Touch> touches = step.rule->touches();
    std::vector<Matrix> sizes;
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const PlacedOperand& operand = step.operands[i];
      sizes.push_back(operand.size);
      if (operand.size.columns == 0) continue;  // it is not given
      const auto region = static_cast<std::size_t>(operand.region);
      read_[region] |= touches[i] != Touch::writes;
      written_[region] |= touches[i] != Touch::reads;
    }
    flops_ += step.rule->flops(Operands(sizes, shape_));
  }
}

void Segment::run(Kernels& kernels, const UnitMemory& memory, float loss_factor) const {
  const std::int64_t tokens = shape_.tokens();
  for (auto step = steps_.begin(); step != steps_.end();) {
    if (!step->in_chunks) {
      run_rows(kernels, memory, loss_factor, *step++, 0, tokens);
      continue;
    }
    const auto end = std::find_if(step, steps_.end(), [](const Step& other) { return !other.in_chunks; });
    for (std::int64_t first = 0; first < tokens; first += chunk_rows_) {
      for (auto each = step; each != end; ++each)
        run_rows(kernels, memory, loss_factor, *each, first, std::min(chunk_rows_, tokens - first));
    }
    step = end;
  }
}

void Segment::run_rows(Kernels& kernels, const UnitMemory& memory, float loss_factor, const Step& step,
                       std::int64_t first, std::int64_t rows) const {
  std::array<Matrix, kMostOperands> matrices;
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const PlacedOperand& operand = step.operands[i];
    std::byte* start = memory[operand.region];
    if (operand.size.columns == 0 || start == nullptr) continue;
    Matrix matrix = operand.size;
    matrix.data = start + operand.offset;
    switch (operand.tokens) {
      case PlacedOperand::Rows::all:
        break;
      case PlacedOperand::Rows::in_rows:
        matrix = matrix.row_slice(first, rows);
        break;
      case PlacedOperand::Rows::in_columns:
        matrix = matrix.column_slice(first, rows);
        break;
      case PlacedOperand::Rows::in_chunk:
        matrix = matrix.row_slice(0, rows);
        break;
    }
    matrices[i] = matrix;
  }
  step.rule->run(kernels, Operands({matrices.data(), step.operands.size()}, shape_, loss_factor));
}

}  // namespace strata
