#include "engine/plan/planner/needs.h"

#include <algorithm>

#include "engine/plan/cost/timeline.h"

namespace strata {
namespace {

/// By their kernels' times, if these were measured.
double seconds_of_passes(const ModelPlan& plan, const MachineRates& rates) {
  if (rates.kernels.is_empty()) return plan.flops.executed / rates.flops_per_second;
  const InstructionCosts costs(plan.training.program, rates);
  double seconds = 0;
  for (const Instruction& instruction : plan.training.program.instructions)
    seconds += instruction.flops > 0 ? costs.seconds_of(instruction) : 0;
  return seconds;
}

StepNeeds needs_of(const ModelPlan& plan, const MachineRates& rates) {
  const auto h2d = static_cast<double>(plan.training.moved(Link::h2d));
  const auto d2h = static_cast<double>(plan.training.moved(Link::d2h));
  const Bytes read = plan.training.moved(Link::nvme_read), written = plan.training.moved(Link::nvme_write);
  const StateFormat& format = plan.strategy.state_format;
  // Not all parameters keep each moment of the format.
  const std::int64_t parameters = plan.trained_parameters;
  const Bytes missing = format.state_bytes(plan.strategy.precision, parameters) - plan.state_bytes;
  const double update_bytes =
      static_cast<double>(format.update_bytes(plan.strategy.precision, parameters) - 2 * missing) /
      static_cast<double>(parameters);
  // If cores copy, the device's memory is the host's.
  const auto updated = static_cast<double>(rates.cores_copy ? plan.updated_parameters : plan.host_parameters);
  return {.compute = seconds_of_passes(plan, rates),
          .h2d = h2d / rates.h2d_bytes_per_second,
          .d2h = d2h / rates.d2h_bytes_per_second,
          .host_memory = (update_bytes * updated + h2d + d2h + static_cast<double>(read + written)) /
                         rates.memory_bytes_per_second,
          .nvme = nvme_seconds(rates, read, written)};
}

}  // namespace

double StepNeeds::longest() const {
  return std::max({compute, h2d, d2h, host_memory, nvme});
}

std::string StepNeeds::binding() const {
  const double most = longest();
  if (most == compute) return "compute";
  if (most == h2d) return "h2d";
  if (most == d2h) return "d2h";
  return most == nvme ? "nvme" : "host memory";
}

StepNeeds step_needs(const Plan& plan, const MachineRates& rates) {
  StepNeeds sum;
  for (const std::optional<ModelPlan>& model : plan.models) {
    if (!model) continue;
    const StepNeeds needs = needs_of(*model, rates);
    sum.compute += needs.compute;
    sum.h2d += needs.h2d;
    sum.d2h += needs.d2h;
    sum.host_memory += needs.host_memory;
    sum.nvme += needs.nvme;
  }
  return sum;
}

}  // namespace strata
