#include "engine/run/run_to_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/run/host.h"
#include "engine/run/layout.h"
#include "engine/run/load_model.h"

namespace strata {

std::vector<JointModel> RunToPlan::joined() const {
  std::vector<JointModel> joined;
  joined.reserve(models.size());
  for (std::size_t m = 0; m < models.size(); ++m)
    joined.push_back({run.models[m].name, &run.models[m].config, &models[m]});
  return joined;
}

RunShare RunToPlan::set_open_budgets() {
  RunConfig& first = run.models.front().config;
  RunShare share = share_of_run(joined(), planned_host(first), ranks_of_node(first));
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
    if (!run.is_several) loaded.layout = agree_on_layout(config, false, ranks, nullptr, on_planning);
    loaded.models.push_back(load_model_of_rank(config, 0));
    std::ranges::move(model_warnings(config), std::back_inserter(loaded.warnings));
  }
  loaded.run = std::move(run);
  return loaded;
}

}  // namespace strata
