// Norms of gradients, and what they decide: the scalars of updates, the scale of the loss.
#include <algorithm>
#include <cmath>

#include "engine/device/state_calls.h"
#include "engine/run/execute/operations/kinds.h"
#include "optim/gradient_norm.h"
#include "optim/update.h"

namespace strata::operations {
namespace {

/// The sum over the norms that the instruction reads.
double squares(const OperationContext& on, const Instruction& instruction) {
  double sum = 0;
  for (const Operand& operand : instruction.reads) {
    if (operand.role != Role::norm) continue;
    const auto* norm = reinterpret_cast<const double*>(on.address(operand.buffer));
    on.meter().touch(norm, sizeof(*norm));
    sum += *norm;
  }
  return sum;
}

struct Decision {
  bool skip = false;  ///< some gradient is not finite
  double scale = 1;   ///< factor on gradients
};

/// For updates, by their number in the step.
void write_scalars(const OperationContext& on, const Operand& scalars, const Decision& decision,
                   std::int64_t step, std::int64_t update) {
  const StepScalars to(on.span<std::byte>(scalars).data());
  const OptimizerSettings& optimizer = on.setup.optimizer;
  const std::int64_t number =
      (on.counters.updates + step - on.counters.step) * on.setup.program->updates + update + 1;
  *to.skip() = decision.skip ? 1U : 0U;
  *to.average() = average_coefficients(optimizer.average, number, optimizer.seed);
  for (std::size_t p = 0; p < optimizer.policies.size(); ++p) {
    const UpdatePolicy& policy = optimizer.policies[p];
    *to.of_policy(p) = coefficients(
        {.policy = policy,
         .learning_rate = learning_rate(optimizer.schedules[policy.schedule], step, on.counters.plateau),
         .gradient_scale = decision.skip ? 0 : static_cast<float>(decision.scale),
         .step = number,
         .seed = optimizer.seed});
  }
}

}  // namespace

void sum_squares(OperationContext& on, const Instruction& instruction) {
  const Matrix gradient = on.flat(*instruction.find_operand(Role::gradient));
  auto* sum = on.operand<double>(instruction, Role::norm);
  bool accumulates = false;
  const auto add = [&](std::int64_t first, std::int64_t count) {
    const Matrix counted = gradient.column_slice(first, count);
    if (instruction.lane == Lane::cpu) {
      on.meter().touch(counted.data, count * size_of(gradient.dtype));
      on.meter().touch(sum, sizeof(*sum));
      on.workers.execute([&] {
        const double added = sum_of_squares(counted.data, counted.dtype, count);
        *sum = accumulates ? *sum + added : added;
      });
    } else {
      on.kernels.run(SumOfSquares{counted, sum, accumulates});
    }
    accumulates = true;
  };
  for (const auto [first, count] : on.share(instruction).counted)
    if (first < gradient.columns) add(first, std::min(count, gradient.columns - first));
  if (!accumulates) add(0, 0);
}

void sum_norms(OperationContext& on, const Instruction& instruction) {
  const double sum = squares(on, instruction);
  on.span<double>(instruction.writes[0])[0] = sum;
}

void step_scalars(OperationContext& on, const Instruction& instruction, std::int64_t step) {
  // The norm of all is not known yet, but that of the step before.
  write_scalars(on, *instruction.find_operand(Role::step_scalars),
                {.skip = !std::isfinite(squares(on, instruction)),
                 .scale = clip_factor(on.counters.norm, on.setup.optimizer.clip_norm)},
                step, std::max(instruction.microbatch, 0));
}

void grad_norm(OperationContext& on, const Instruction& instruction, std::int64_t step) {
  auto* loss_scale = on.value<LossScale>(instruction, Role::loss_scale);
  const double scale = loss_scale == nullptr ? 1 : loss_scale->scale;
  const double norm =
      std::sqrt(squares(on, instruction) / static_cast<double>(on.setup.program->updates)) / scale;
  on.report.grad_norm = norm;
  on.report.loss_scale = scale;
  const bool is_finite = std::isfinite(norm);
  const bool is_spiking = is_finite && is_spike(on.setup.optimizer.spike, on.counters, norm);
  on.counters.spikes = on.report.spikes = is_spiking ? on.counters.spikes + 1 : 0;
  on.report.skipped = !is_finite || is_spiking;
  on.report.learning_rate = learning_rate(on.setup.optimizer.schedules.front(), step, on.counters.plateau);
  if (const Operand* scalars = instruction.find_operand(Role::step_scalars))
    write_scalars(
        on, *scalars,
        {.skip = on.report.skipped, .scale = clip_factor(norm, on.setup.optimizer.clip_norm) / scale}, step,
        0);
  if (loss_scale != nullptr)
    *loss_scale = next_loss_scale(*loss_scale, on.setup.optimizer.loss_scale, is_finite);
  if (is_finite) {
    on.counters.norm = norm;
    on.counters.mean_norm = next_mean_norm(on.setup.optimizer.spike, on.counters, norm);
  }
  ++on.counters.step;
  ++(on.report.skipped ? on.counters.skipped : on.counters.updates);
  if (auto* record = on.value<StepRecord>(instruction, Role::step_record))
    *record = {on.counters, loss_scale == nullptr ? LossScale{} : *loss_scale};
}

}  // namespace strata::operations
