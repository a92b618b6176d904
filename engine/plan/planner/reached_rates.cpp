#include "engine/plan/planner/reached_rates.h"

#include <algorithm>

#include "engine/plan/planner/needs.h"
#include "engine/plan/planner/run_certificate.h"

namespace strata {
namespace {

/// The lengths of what a run needs, each against what it took.
void raise(MachineRates& rates, const StepNeeds& needs, double seconds) {
  const auto raise_one = [&](double& rate, double needed) { rate *= std::max(1.0, needed / seconds); };
  raise_one(rates.flops_per_second, needs.compute);
  raise_one(rates.h2d_bytes_per_second, needs.h2d);
  raise_one(rates.d2h_bytes_per_second, needs.d2h);
  raise_one(rates.memory_bytes_per_second, needs.host_memory);
  raise_one(rates.nvme_read_bytes_per_second, needs.nvme);
  raise_one(rates.nvme_write_bytes_per_second, needs.nvme);
}

void raise_all(MachineRates& rates, double bound, double seconds) {
  const double times = bound / seconds;
  if (times <= 1) return;
  for (double MachineRates::*rate :
       {&MachineRates::flops_per_second, &MachineRates::memory_bytes_per_second,
        &MachineRates::h2d_bytes_per_second, &MachineRates::d2h_bytes_per_second,
        &MachineRates::nvme_read_bytes_per_second, &MachineRates::nvme_write_bytes_per_second,
        &MachineRates::copy_bytes_per_second})
    rates.*rate *= times;
  rates.kernels.speed_up(times);
}

/// The needs of one model by executed FLOPs or by those of the mathematics: a rank may execute less than its
/// part of these.
StepNeeds needs_of(const Plan& plan, const MachineRates& rates) {
  StepNeeds needs = step_needs(plan, rates);
  if (!plan.merged) needs.compute = std::max(needs.compute, plan.only().flops.model / rates.flops_per_second);
  return needs;
}

}  // namespace

MachineRates reached_rates(MachineRates rates, const std::vector<Plan>& plans,
                           const std::vector<ModelToPlan>& models, double seconds) {
  if (seconds <= 0) return rates;
  for (const Plan& plan : plans) raise(rates, needs_of(plan, rates), seconds);
  raise_all(rates, certify(plans, models, rates).seconds, seconds);
  return rates;
}

}  // namespace strata
