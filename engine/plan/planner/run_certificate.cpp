#include "engine/plan/planner/run_certificate.h"

#include <algorithm>

#include "engine/model/model.h"
#include "engine/plan/bound/step_facts.h"

namespace strata {
namespace {

Certificate of_passes(double seconds) {
  Certificate certificate{.seconds = seconds};
  certificate.alone[BoundArgument::compute] = seconds;
  return certificate;
}

}  // namespace

Certificate certify(const std::vector<Plan>& plans, const std::vector<ModelToPlan>& models,
                    const MachineRates& rates) {
  const Plan& first = plans.front();
  if (!first.merged && first.only().strategy.mesh.ranks() == 1)
    return certify(facts_of(*models.front().model, first.only().strategy, rates), first.budgets, rates);
  double longest = 0;
  for (const Plan& plan : plans) {
    double seconds = 0;
    for (std::size_t m = 0; m < models.size(); ++m) {
      if (plan.models[m]) seconds += least_pass_seconds(*models[m].model, plan.models[m]->strategy, rates);
    }
    longest = std::max(longest, seconds);
  }
  return of_passes(longest);
}

}  // namespace strata
