// strata plan: what a run needs and moves, from the run file alone.
#include <fmt/format.h>

#include <iostream>
#include <optional>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/host_memory.h"
#include "engine/base/watchdog.h"
#include "engine/cli/commands.h"
#include "engine/cli/say.h"
#include "engine/cli/setup.h"
#include "engine/config/load.h"
#include "engine/plan/host_budget.h"
#include "engine/report/plan_report.h"

namespace strata {

namespace {

/// What the machine has that the run is planned for: the one whose profile is given, or this one.
Bytes planned_memory(const RunConfig& config) {
  const std::optional<Bytes> stated = profiled_memory(config.plan.machine);
  return stated ? *stated : usable_memory();
}

/// A run that does not fit this machine may be meant for another.
Plan plan_for(const RunConfig& config, const Model& model, const RunConfig::MemorySection& as_given,
              const HostShare& host) {
  try {
    return make_plan(config, model);
  } catch (const ConfigError& error) {
    const bool is_of_budgets = std::string_view(error.what()).starts_with("memory.");
    if (as_given == config.memory || !is_of_budgets) throw;
    throw ConfigError(fmt::format(
        "{} (unlimited is what the machine has, {}; to plan for another one give memory.{} a number)",
        error.what(), host.describe(), as_given.host == config.memory.host ? "device" : "host"));
  }
}

}  // namespace

int run_plan(const PlanCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  RunConfig config = load_run_config(command.run_file, command.overrides);
  const Model model = load_model(config);
  warn_of_model(config);
  const RunConfig::MemorySection as_given = config.memory;
  const HostShare host = share_of_host(config, model, planned_memory(config), 1);
  set_unlimited(config.memory, config.device.kind, host);
  const Plan plan = plan_for(config, model, as_given, host);
  const MachineRates profile = planning_rates(config);
  const MachineRates* rates = config.plan.machine.empty() ? nullptr : &profile;
  if (command.json != "-")
    std::cout << plan_text(plan, model, rates) << "memory   " << host.describe() << '\n';
  if (command.program) std::cout << print(plan.training.program);
  write_json(command.json, plan_json(plan, rates));
  return 0;
}

}  // namespace strata
