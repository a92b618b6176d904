#include "engine/tools/cli/advised_run.h"

#include <utility>

#include "engine/config/run_config.h"
#include "engine/run/assembly/device.h"
#include "engine/run/assembly/host.h"
#include "engine/run/assembly/layout.h"
#include "engine/run/assembly/precision.h"

namespace strata {

AdvisedRun::AdvisedRun(RunToPlan loaded) : run(std::move(loaded)) {
  const RunConfig& first = run.run.models.front().config;
  input.is_several = run.run.is_several;
  for (const ConfiguredModel& model : run.configured()) {
    input.names.push_back(model.name);
    input.models.push_back(model.model);
    input.configs.push_back(*model.config);
    input.configs.back().memory = first.memory;
  }
  const HostResources host = planned_host(first);
  input.set_budgets = [this, host](std::vector<RunConfig>& configs) {
    const RunShare share = share_of_run(configured(input, configs), host, ranks_of_node(configs.front()));
    for (RunConfig& config : configs) set_unlimited(config.memory, config.device.kind, share.host);
  };
  input.machine_memory = share_of_run({run.configured().front()}, host, ranks_of_node(first)).host.for_tiers;
  input.has_bf16 = first.device.kind != DeviceKind::cpu || without_bf16_where_planned(first).empty();
}

}  // namespace strata
