#include "engine/cli/advised_run.h"

#include <utility>

#include "engine/cli/planning.h"
#include "engine/cli/setup.h"
#include "engine/run/device.h"
#include "engine/run/host.h"
#include "engine/run/layout.h"
#include "engine/run/load_model.h"
#include "engine/run/precision.h"

namespace strata {
namespace {

void set_open_budgets(std::vector<RunConfig>& configs, const AdvisedRun& run, const HostResources& host) {
  const HostShare share = share_of_run(joined(run.input, configs), host, ranks_of_node(configs.front())).host;
  for (RunConfig& config : configs) set_unlimited(config.memory, config.device.kind, share);
}

}  // namespace

AdvisedRun::AdvisedRun(PlanTarget target) {
  RunModels& run = target.run;
  input.is_several = run.is_several;
  models.reserve(run.models.size());
  for (NamedRun& named : run.models) {
    RunConfig& config = named.config;
    agree_on_precision(config, false, without_bf16_where_planned(config), nullptr);
    if (!run.is_several) choose_layout(config, false, target.ranks, nullptr);
    models.push_back(load_model_of_rank(config, 0));
    warn_of_model(config);
    input.names.push_back(named.name);
    input.configs.push_back(std::move(config));
  }
  for (const Model& model : models) input.models.push_back(&model);
  RunConfig& first = input.configs.front();
  for (RunConfig& config : input.configs) config.memory = first.memory;
  const HostResources host = planned_host(first);
  input.set_budgets = [this, host](std::vector<RunConfig>& configs) {
    set_open_budgets(configs, *this, host);
  };
  input.machine_memory =
      share_of_run({{input.names.front(), &first, input.models.front()}}, host, ranks_of_node(first))
          .host.for_tiers;
  input.has_bf16 = first.device.kind != DeviceKind::cpu || without_bf16_where_planned(first).empty();
}

}  // namespace strata
