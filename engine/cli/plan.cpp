// strata plan: what a run needs and moves, from the run file, and from the newest checkpoint only what
// train.precision auto keeps.
#include <fmt/format.h>

#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/watchdog.h"
#include "engine/cli/commands.h"
#include "engine/cli/device.h"
#include "engine/cli/precision.h"
#include "engine/cli/say.h"
#include "engine/cli/setup.h"
#include "engine/config/load.h"
#include "engine/plan/lower/schedule.h"
#include "engine/plan/search/host_budget.h"
#include "engine/report/plan_report.h"

namespace strata {

namespace {

/// What the machine has that the run is planned for: the one whose profile is given, or this one. A profile
/// says nothing of free space, so that is asked of the folders, if they are there.
HostResources planned_host(const RunConfig& config) {
  HostResources host = this_host(config);
  host.memory = profiled_memory(config.plan.machine).value_or(host.memory);
  return host;
}

/// The keys in `error` whose budgets the run file leaves to the machine.
std::string open_budgets(std::string_view error, const RunConfig::MemorySection& given,
                         const RunConfig::MemorySection& set) {
  std::string keys;
  const auto add = [&](std::string_view key, bool is_open) {
    if (is_open && error.find(key) != error.npos)
      keys += fmt::format("{}{}", keys.empty() ? "" : " and ", key);
  };
  add("memory.device", given.device != set.device);
  add("memory.host", given.host != set.host);
  add("memory.nvme.size", given.nvme_size != set.nvme_size);
  return keys;
}

/// A run that does not fit this machine may be meant for another.
Plan plan_for(const RunConfig& config, const Model& model, const RunConfig::MemorySection& as_given,
              const HostShare& host, const AgreedPrecision& precision) {
  try {
    return plan_in(precision, config, model, planning_rates(config));
  } catch (const ConfigError& error) {
    const std::string open = open_budgets(error.what(), as_given, config.memory);
    if (open.empty()) throw;
    throw ConfigError(
        fmt::format("{} (unlimited is what the machine has, {}; to plan for another one give {} a number)",
                    error.what(), host.describe(), open));
  }
}

}  // namespace

int run_plan(const PlanCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  RunConfig config = load_run_config(command.run_file, command.overrides);
  const AgreedPrecision precision =
      agree_on_precision(config, false, without_bf16_where_planned(config), nullptr);
  const Model model = load_model(config);
  warn_of_model(config);
  const RunConfig::MemorySection as_given = config.memory;
  const std::vector<ScratchPart> scratch = kernel_scratch(config, model);
  const HostShare host =
      share_of_host(config, model, planned_host(config), 1, in_host_memory(config, scratch));
  set_unlimited(config.memory, config.device.kind, host);
  const Plan plan = plan_for(config, model, as_given, host, precision);
  const MachineRates profile = planning_rates(config);
  const MachineRates* rates = config.plan.machine.empty() ? nullptr : &profile;
  if (command.json != "-") {
    std::cout << plan_text(plan, model, rates) << "scratch  "
              << (scratch.empty() ? "unknown: this program was built without CUDA" : scratch_text(scratch))
              << '\n'
              << "memory   " << host.describe() << '\n';
    if (!precision.line.empty()) std::cout << precision.line << '\n';
  }
  if (command.schedule) {
    const std::vector<std::string>& units = plan.training.program.units;
    std::cout << print(training_schedule(plan.strategy, unit_work(model, plan.strategy)), units);
  }
  if (command.program) std::cout << print(plan.training.program);
  nlohmann::json json = plan_json(plan, rates);
  json["scratch"] = scratch_json(scratch);
  write_json(command.json, json);
  return 0;
}

}  // namespace strata
