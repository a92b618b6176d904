// strata explain: a planned run in words, and the changes that would help most. What explains it is planned
// here; nothing is trained and no device is touched.
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/task_arena.h"
#include "base/topology.h"
#include "base/watchdog.h"
#include "engine/plan/planner/step_use.h"
#include "engine/run/tune/advice.h"
#include "engine/run/tune/planning_rates.h"
#include "engine/tools/cli/advised_run.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/overwriting.h"
#include "engine/tools/cli/plan_target.h"
#include "engine/tools/cli/planning.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/setup.h"
#include "engine/tools/report/explain_report.h"
#include "engine/tools/report/status_line.h"
#include "engine/tools/report/wrapped.h"

namespace strata {

int run_explain(const PlanningCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  const PlanTarget target = plan_target(command);
  CommandFiles files = files_of(command, target.run);
  files.outputs.push_back({"--json", command.json});
  refuse_overwriting(files);
  check_json_path("--json", command.json);
  target.warn();
  AdvisedRun run(load_to_plan(target));
  StatusLine line;
  run.input.on_planning = [&line](const std::string& what) { line.show(what); };
  Advice advice;
  TaskArena arena(usable_cores());
  arena.execute([&] { advice = advise(run.input); });
  const MachineRates rates = planning_rates(run.input.configs.front());
  const std::vector<RankUse> uses = advice.run ? find_use(*advice.run, rates) : std::vector<RankUse>();
  line.end();
  if (command.json != "-") {
    const std::string text = target.machine_line +
                             explain_text(run.input, advice, uses, rates, target.rates_are(rates)) +
                             target.data_line();
    std::cout << for_output(text) << std::flush;
  }
  write_json(command.json, explain_json(advice, uses, rates));
  if (!advice.run) throw ConfigError(advice.refusal);
  return 0;
}

}  // namespace strata
