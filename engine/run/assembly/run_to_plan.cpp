#include "engine/run/assembly/run_to_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/config/run_config.h"
#include "engine/run/assembly/host.h"
#include "engine/run/assembly/layout.h"
#include "engine/run/assembly/load_model.h"

namespace strata {

std::vector<ConfiguredModel> RunToPlan::configured() const {
  std::vector<ConfiguredModel> configured;
  configured.reserve(models.size());
  for (std::size_t m = 0; m < models.size(); ++m)
    configured.push_back({run.models[m].name, &run.models[m].config, &models[m]});
  return configured;
}

RunShare RunToPlan::set_open_budgets() {
  RunConfig& first = run.models.front().config;
  RunShare share = share_of_run(configured(), planned_host(first), ranks_of_node(first));
  set_unlimited(first.memory, first.device.kind, share.host);
  for (NamedRun& model : run.models) model.config.memory = first.memory;
  return share;
}

RunToPlan load_to_plan(RunModels run, std::int64_t ranks, const OnPlanning& on_planning) {
  RunToPlan loaded;
  loaded.models.reserve(run.models.size());
  for (NamedRun& named : run.models) {
    RunConfig& config = named.config;
    AgreedPrecision precision =
        agree_on_precision(config, false, without_bf16_where_planned(config), nullptr);
    if (loaded.models.empty()) loaded.precision = std::move(precision);
    if (!run.is_several) loaded.layout = agree_on_layout(config, false, ranks, nullptr, on_planning).line;
    loaded.models.push_back(load_model_of_rank(config, 0));
    std::ranges::move(model_warnings(config), std::back_inserter(loaded.warnings));
  }
  loaded.run = std::move(run);
  return loaded;
}

}  // namespace strata
