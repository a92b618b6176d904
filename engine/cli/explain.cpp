// strata explain: a planned run in words, and the changes that would help most. What explains it is planned
// here; nothing is trained and no device is touched.
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/task_arena.h"
#include "base/topology.h"
#include "base/watchdog.h"
#include "engine/cli/advised_run.h"
#include "engine/cli/commands.h"
#include "engine/cli/overwriting.h"
#include "engine/cli/say.h"
#include "engine/cli/setup.h"
#include "engine/plan/search/advice.h"
#include "engine/plan/search/step_use.h"
#include "engine/report/explain_report.h"

namespace strata {

int run_explain(const ExplainCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  const RunModels run_file = load_run_models(command.run_file, command.overrides);
  CommandFiles files = files_of(command, run_file);
  files.outputs.push_back({"--json", command.json});
  refuse_overwriting(files);
  check_json_path("--json", command.json);
  const AdvisedRun run(command);
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
