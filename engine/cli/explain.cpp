// strata explain: a planned run in words, and the changes that would help most. What explains it is planned
// here; nothing is trained and no device is touched.
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/task_arena.h"
#include "base/topology.h"
#include "base/watchdog.h"
#include "engine/cli/commands.h"
#include "engine/cli/device.h"
#include "engine/cli/precision.h"
#include "engine/cli/say.h"
#include "engine/cli/setup.h"
#include "engine/config/run_models.h"
#include "engine/plan/search/advice.h"
#include "engine/plan/search/host_budget.h"
#include "engine/plan/search/step_use.h"
#include "engine/report/explain_report.h"

namespace strata {
namespace {

/// The run and what it refers to.
struct ExplainedRun {
  AdviceInput input;
  std::vector<Model> models;
};

/// Open budgets become what the machine has that the run is planned for, as strata plan does.
void set_open_budgets(std::vector<RunConfig>& configs, const ExplainedRun& run, const HostResources& host) {
  std::vector<JointModel> joint;
  joint.reserve(configs.size());
  for (std::size_t m = 0; m < configs.size(); ++m)
    joint.push_back({run.input.names[m], &configs[m], run.input.models[m]});
  const HostShare share = share_of_run(joint, host, 1).host;
  for (RunConfig& config : configs) set_unlimited(config.memory, config.device.kind, share);
}

void load(const ExplainCommand& command, ExplainedRun& run) {
  RunModels models = load_run_models(command.run_file, command.overrides);
  run.input.is_several = models.is_several;
  run.models.reserve(models.models.size());
  for (NamedRun& named : models.models) {
    RunConfig& config = named.config;
    agree_on_precision(config, false, without_bf16_where_planned(config), nullptr);
    run.models.push_back(load_model_of_rank(config, 0));
    warn_of_model(config);
    run.input.names.push_back(named.name);
    run.input.configs.push_back(std::move(config));
  }
  for (const Model& model : run.models) run.input.models.push_back(&model);
  RunConfig& first = run.input.configs.front();
  for (RunConfig& config : run.input.configs) config.memory = first.memory;
  const HostResources host = planned_host(first);
  run.input.set_budgets = [&run, host](std::vector<RunConfig>& configs) {
    set_open_budgets(configs, run, host);
  };
  run.input.machine_memory =
      share_of_run({{run.input.names.front(), &first, run.input.models.front()}}, host, 1).host.for_tiers;
  run.input.has_bf16 = first.device.kind != DeviceKind::cpu || without_bf16_where_planned(first).empty();
}

}  // namespace

int run_explain(const ExplainCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  check_json_path("--json", command.json);
  ExplainedRun run;
  load(command, run);
  Advice advice;
  TaskArena arena(usable_cores());
  arena.execute([&] { advice = advise(run.input); });
  const MachineRates rates = planning_rates(run.input.configs.front());
  const std::vector<RankUse> uses = advice.run ? find_use(*advice.run, rates) : std::vector<RankUse>();
  if (command.json != "-") std::cout << explain_text(run.input, advice, uses, rates) << std::flush;
  write_json(command.json, explain_json(advice, uses, rates));
  if (!advice.run) throw ConfigError(advice.refusal);
  return 0;
}

}  // namespace strata
