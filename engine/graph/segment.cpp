#include "engine/graph/segment.h"

#include <cassert>
#include <utility>

namespace strata {

Segment::Segment(std::vector<Step> steps, const MicrobatchShape& shape)
    : steps_(std::move(steps)), shape_(shape) {
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
  std::array<Matrix, kMostOperands> matrices;
  for (const Step& step : steps_) {
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const PlacedOperand& operand = step.operands[i];
      std::byte* start = memory[operand.region];
      const bool is_given = operand.size.columns > 0 && start != nullptr;
      matrices[i] = is_given ? operand.size : Matrix();
      if (is_given) matrices[i].data = start + operand.offset;
    }
    step.rule->run(kernels, Operands({matrices.data(), step.operands.size()}, shape_, loss_factor));
  }
}

}  // namespace strata
