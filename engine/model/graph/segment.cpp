#include "engine/model/graph/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/nth.h"
#include "engine/device/elementwise_calls.h"

namespace strata {
namespace {

std::vector<Matrix> sizes_of(const Segment::Step& step) {
  std::vector<Matrix> sizes;
  for (const Segment::PlacedOperand& operand : step.operands) sizes.push_back(operand.size);
  return sizes;
}

/// Whether two steps are calls of one name, if their FLOPs are equal.
bool are_alike(const Segment::Step& a, const Segment::Step& b) {
  const auto is_same_size = [](const Segment::PlacedOperand& one, const Segment::PlacedOperand& other) {
    return one.size.rows == other.size.rows && one.size.columns == other.size.columns &&
           one.size.dtype == other.size.dtype;
  };
  return a.rule->name() == b.rule->name() && std::ranges::equal(a.operands, b.operands, is_same_size);
}

}  // namespace

Segment::Segment(std::vector<Step> steps, const MicrobatchShape& shape)
    : steps_(std::move(steps)), shape_(shape) {
  find_first_gradients();
  Work work;
  std::vector<const Step*> first_of;  // by call
  for (const Step& step : steps_) {
    assert(step.operands.size() <= kMostOperands);
    const Touches touches = step.rule->touches();
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const PlacedOperand& operand = step.operands[i];
      if (operand.size.columns == 0) continue;  // it is not given
      nth(read_, operand.region) |= touches[i] != Touch::writes;
      nth(written_, operand.region) |= touches[i] != Touch::reads;
    }
    const double flops = step.rule->flops(Operands(sizes_of(step), shape_));
    flops_ += flops;
    std::size_t call = 0;
    while (call < work.size() && (work[call].call.flops != flops || !are_alike(*first_of[call], step)))
      ++call;
    if (call < work.size()) {
      ++work[call].times;
    } else {
      work.push_back({work_of(step)});
      first_of.push_back(&step);
    }
  }
  work_ = std::make_shared<const Work>(std::move(work));
}

/// Rules of one name may do more or less on the same sizes, as attention does with a window: FLOPs tell.
KernelWork Segment::work_of(const Step& step) const {
  KernelWork work = {.name = std::string(step.rule->name()),
                     .flops = step.rule->flops(Operands(sizes_of(step), shape_))};
  for (const PlacedOperand& operand : step.operands) {
    const Matrix& size = operand.size;
    work.name +=
        size.columns == 0 ? " -" : fmt::format(" {}x{}{}", size.rows, size.columns, name_of(size.dtype));
    work.bytes += size.elements() * size_of(size.dtype);
  }
  if (work.flops > 0) work.name += fmt::format(" {:.6g}", work.flops);
  return work;
}

/// Steps touch gradients in their order, so what one finds untouched is its own to begin.
void Segment::find_first_gradients() {
  std::array<std::vector<Range>, kRegions> touched;
  for (Step& step : steps_) {
    const Touches touches = step.rule->touches();
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const auto& [region, offset, size, has_indices] = step.operands[i];
      if (size.columns == 0 || (region != Region::gradient && region != Region::shared_gradient)) continue;
      const Bytes element = size_of(size.dtype);
      const Range range = {offset, offset + ((size.rows - 1) * size.stride + size.columns) * element};
      std::vector<Range>& of_region = nth(touched, region);
      const bool is_first = std::ranges::none_of(
          of_region, [&](const Range& other) { return range.first < other.end && other.first < range.end; });
      of_region.push_back(range);
      const bool can_overwrite =
          touches[i] == Touch::updates && step.rule->can_overwrite(static_cast<int>(i));
      if (!is_first || !can_overwrite || !size.contiguous()) continue;
      step.first_gradients |= OperandSet{1} << i;
      nth(overwritten_, region).push_back(range);
    }
  }
  for (std::vector<Range>& ranges : overwritten_) std::ranges::sort(ranges, {}, &Range::first);
}

void Segment::clear(Kernels& kernels, const UnitMemory& memory, const BegunGradients& begun) const {
  for (const Region region : {Region::gradient, Region::shared_gradient}) {
    if (begun.of(region) == 0) continue;
    const auto clear = [&](Bytes first, Bytes end) {
      if (first < end)
        kernels.run(Zero{{memory[region] + first, DType::fp32, 1, (end - first) / size_of(DType::fp32)}});
    };
    Bytes end = 0;
    for (const Range& range : nth(overwritten_, region)) {
      clear(end, range.first);
      end = range.end;
    }
    clear(end, begun.of(region) * size_of(DType::fp32));
  }
}

void Segment::run(Kernels& kernels, const UnitMemory& memory, float loss_factor,
                  const BegunGradients& begun) const {
  clear(kernels, memory, begun);
  for (const Step& step : steps_) run_step(step, kernels, memory, loss_factor, begun);
}

void Segment::run_step(const Step& step, Kernels& kernels, const UnitMemory& memory, float loss_factor,
                       const BegunGradients& begun) const {
  std::array<Matrix, kMostOperands> matrices;
  OperandSet overwritten = 0;
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const PlacedOperand& operand = step.operands[i];
    std::byte* start = memory[operand.region];
    const bool is_given = operand.size.columns > 0 && start != nullptr;
    matrices[i] = is_given ? operand.size : Matrix();
    if (is_given) matrices[i].data = start + operand.offset;
    if (begun.of(operand.region) > 0) overwritten |= step.first_gradients & OperandSet{1} << i;
  }
  step.rule->run(kernels, Operands({matrices.data(), step.operands.size()}, shape_, loss_factor, overwritten,
                                   memory.unit));
}

}  // namespace strata
