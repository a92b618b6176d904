#include "engine/graph/segment.h"

#include <fmt/format.h>

#include <cassert>
#include <utility>

namespace strata {
namespace {

/// Rules of one name may do more or less on the same sizes, as attention does with a window: FLOPs tell.
KernelWork work_of(const Segment::Step& step, const std::vector<Matrix>& sizes, double flops) {
  KernelWork work = {.name = std::string(step.rule->name()), .flops = flops};
  for (const Matrix& size : sizes) {
    work.name +=
        size.columns == 0 ? " -" : fmt::format(" {}x{}{}", size.rows, size.columns, name_of(size.dtype));
    work.bytes += size.elements() * size_of(size.dtype);
  }
  if (flops > 0) work.name += fmt::format(" {:.6g}", flops);
  return work;
}

}  // namespace

Segment::Segment(std::vector<Step> steps, const MicrobatchShape& shape)
    : steps_(std::move(steps)), shape_(shape) {
  Work work;
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
    const double flops = step.rule->flops(Operands(sizes, shape_));
    flops_ += flops;
    work.push_back(work_of(step, sizes, flops));
  }
  work_ = std::make_shared<const Work>(std::move(work));
}

void Segment::run(Kernels& kernels, const UnitMemory& memory, float loss_factor) const {
  for (const Step& step : steps_) run_step(step, kernels, memory, loss_factor);
}

void Segment::run_step(const Step& step, Kernels& kernels, const UnitMemory& memory,
                       float loss_factor) const {
  std::array<Matrix, kMostOperands> matrices;
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const PlacedOperand& operand = step.operands[i];
    std::byte* start = memory[operand.region];
    const bool is_given = operand.size.columns > 0 && start != nullptr;
    matrices[i] = is_given ? operand.size : Matrix();
    if (is_given) matrices[i].data = start + operand.offset;
  }
  step.rule->run(kernels, Operands({matrices.data(), step.operands.size()}, shape_, loss_factor));
}

}  // namespace strata
