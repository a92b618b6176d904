// Data that a step begins with, and the losses that it ends with.
#include <limits>
#include <string>

#include "base/nth.h"
#include "base/watchdog.h"
#include "engine/device/loss_calls.h"
#include "engine/run/execute/operations/kinds.h"

namespace strata::operations {
namespace {

bool has_loss(const OperationContext& on, std::int64_t step) {
  return !on.setup.loss_terms || on.setup.loss_terms(step) > 0;
}

}  // namespace

static_assert(MicrobatchData::kMost == kMostDataArrays);
static_assert(kUntrained == kNoTarget);

/// Its operands are the arrays that this rank's units read.
void load_data(OperationContext& on, const Instruction& instruction, std::int64_t step) {
  const WatchedWait wait([] { return std::string("reading the training data (data.path)"); });
  MicrobatchData data;
  for (const Operand& array : instruction.writes) {
    const std::span bytes = span_of(on.address(array.buffer), array.bytes());
    on.meter().touch(bytes);
    data.set(ordinal(array.role) - ordinal(Role::data_0), bytes);
  }
  on.setup.load(step, instruction.microbatch, data);
}

/// The losses of this rank's microbatches, which ranks take in turns; in a validation the last ranks' last
/// ones may not count.
void sum_losses(OperationContext& on, const Instruction& instruction, std::int64_t step) {
  const std::int64_t terms = on.setup.program->loss_terms;
  double sum = 0;
  std::int64_t microbatch = on.setup.data_rank;
  for (const Operand& losses : instruction.reads) {
    if (microbatch * losses.elements * on.setup.context_ranks >= terms || !on.setup.counts_losses) break;
    for (const float loss : on.span<float>(losses)) sum += loss;
    microbatch += on.setup.data_ranks;
  }
  *on.value<StepSums>(instruction, Role::step_sums) = {
      .loss = sum / static_cast<double>(on.loss_terms(step)),
      .stops = on.setup.stop_requested && on.setup.stop_requested() ? 1.0 : 0.0};
}

void loss(OperationContext& on, const Instruction& instruction, std::int64_t step) {
  const StepSums& sums = *on.value<StepSums>(instruction, Role::step_sums);
  on.report.step = step;
  on.report.has_loss = has_loss(on, step);
  on.report.loss = on.report.has_loss ? sums.loss : std::numeric_limits<double>::quiet_NaN();
  if (sums.stops > 0) on.setup.on_stop_agreed(step);
}

}  // namespace strata::operations
