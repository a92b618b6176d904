#include "engine/plan/search/bound.h"

#include <algorithm>

namespace strata {

double StepBound::seconds() const {
  return std::max({compute, h2d, d2h, host_memory, nvme});
}

std::string StepBound::binding() const {
  const double longest = seconds();
  if (longest == compute) return "compute";
  if (longest == h2d) return "h2d";
  if (longest == d2h) return "d2h";
  return longest == nvme ? "nvme" : "host memory";
}

StepBound step_bound(const Plan& plan, const MachineRates& rates) {
  const auto h2d = static_cast<double>(plan.training.moved(Link::h2d));
  const auto d2h = static_cast<double>(plan.training.moved(Link::d2h));
  const Bytes read = plan.training.moved(Link::nvme_read), written = plan.training.moved(Link::nvme_write);
  const Bytes update_bytes = plan.strategy.state_format.update_bytes(plan.strategy.precision);
  // If cores copy, the device's memory is the host's.
  const auto updated = static_cast<double>(rates.cores_copy ? plan.updated_parameters : plan.host_parameters);
  return {.compute = plan.flops.executed / rates.flops_per_second,
          .h2d = h2d / rates.h2d_bytes_per_second,
          .d2h = d2h / rates.d2h_bytes_per_second,
          .host_memory = (static_cast<double>(update_bytes) * updated + h2d + d2h +
                          static_cast<double>(read + written)) /
                         rates.memory_bytes_per_second,
          .nvme = nvme_seconds(rates, read, written)};
}

StepBound round_bound(const JointPlan& plan, const MachineRates& rates) {
  StepBound sum;
  for (const std::optional<Plan>& model : plan.models) {
    if (!model) continue;
    const StepBound bound = step_bound(*model, rates);
    sum.compute += bound.compute;
    sum.h2d += bound.h2d;
    sum.d2h += bound.d2h;
    sum.host_memory += bound.host_memory;
    sum.nvme += bound.nvme;
  }
  return sum;
}

}  // namespace strata
