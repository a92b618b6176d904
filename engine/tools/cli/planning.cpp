#include "engine/tools/cli/planning.h"

#include <iostream>
#include <optional>
#include <vector>

#include "base/task_arena.h"
#include "base/topology.h"
#include "engine/config/run_config.h"
#include "engine/plan/planner/step_use.h"
#include "engine/run/assembly/layout.h"
#include "engine/run/tune/sensitivity.h"
#include "engine/tools/cli/advised_run.h"
#include "engine/tools/cli/profiling.h"
#include "engine/tools/cli/setup.h"
#include "engine/tools/report/search_report.h"
#include "engine/tools/report/simulate_report.h"
#include "engine/tools/report/status_line.h"
#include "engine/tools/report/wrapped.h"

namespace strata {

AgreedLayout choose_layout(RunConfig& config, bool fresh, std::int64_t ranks, Communicator* world) {
  StatusLine line;
  return agree_on_layout(config, fresh, ranks, world, [&line](const std::string& what) { line.show(what); });
}

RunToPlan load_to_plan(const PlanTarget& target) {
  StatusLine line;
  RunToPlan loaded =
      load_to_plan(target.run, target.ranks, [&line](const std::string& what) { line.show(what); });
  line.end();
  for (const std::string& warning : loaded.warnings) std::cerr << "warning: " << warning << '\n';
  return loaded;
}

int search_plan(const PlanCommand& command, const PlanTarget& target, const RunConfig& open) {
  StatusLine line;
  const LayoutInput input =
      layout_input(open, target.ranks, [&line](const std::string& what) { line.show(what); });
  const LayoutSearch search = find_layout(input);
  line.end();
  if (command.json != "-") {
    std::cout << for_output(target.machine_line) << for_output(search_text(search, input), kLayoutColumn)
              << for_output(target.notes(input.rates)) << search_settings(search, input);
  }
  write_json(command.json, search_json(search, input));
  return 0;
}

int simulate_plan(const PlanCommand& command, const PlanTarget& target) {
  AdvisedRun run(load_to_plan(target));
  StatusLine line;
  run.input.on_planning = [&line](const std::string& what) { line.show(what); };
  std::optional<SimulatedRun> simulated;
  TaskArena arena(usable_cores());
  or_explain(command, [&] {
    arena.execute([&] { simulated = simulate(run.input); });
    return 0;
  });
  const std::vector<RankUse> uses = find_use(simulated->run, simulated->rates);
  line.end();
  if (command.json != "-")
    std::cout << for_output(target.machine_line + simulate_text(*simulated, uses) +
                            target.notes(simulated->rates));
  if (!command.trace.empty())
    write_planned_trace(command.trace, planned_profiles(simulated->run.ranks, simulated->rates));
  write_json(command.json, simulate_json(*simulated, uses));
  return 0;
}

}  // namespace strata
