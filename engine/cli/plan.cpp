// strata plan: what a run needs and moves, from the run file alone.
#include <iostream>

#include "engine/cli/commands.h"
#include "engine/cli/setup.h"
#include "engine/config/load.h"
#include "engine/report/plan_report.h"

namespace strata {

int run_plan(const PlanCommand& command) {
  const RunConfig config = load_run_config(command.run_file, command.overrides);
  const Model model = load_model(config);
  warn_of_model(config);
  const Plan plan = make_plan(config, model);
  const MachineRates profile = planning_rates(config);
  const MachineRates* rates = config.plan.machine.empty() ? nullptr : &profile;
  if (command.json != "-") std::cout << plan_text(plan, model, rates);
  if (command.program) std::cout << print(plan.training.program);
  write_json(command.json, plan_json(plan, rates));
  return 0;
}

}  // namespace strata
