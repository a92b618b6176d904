// strata plan: what a run needs and moves, from the run file, and from the newest checkpoint only what
// train.precision auto keeps.
#include <fmt/format.h>

#include <cstdint>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/watchdog.h"
#include "engine/config/run_config.h"
#include "engine/config/run_models.h"
#include "engine/plan/lower/pipeline.h"
#include "engine/plan/planner/planned_run.h"
#include "engine/plan/planner/planner.h"
#include "engine/plan/planner/run_certificate.h"
#include "engine/run/assembly/device.h"
#include "engine/run/assembly/precision.h"
#include "engine/run/assembly/run_to_plan.h"
#include "engine/run/tune/host_budget.h"
#include "engine/run/tune/planning_rates.h"
#include "engine/run/tune/request_of_run.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/overwriting.h"
#include "engine/tools/cli/plan_target.h"
#include "engine/tools/cli/planning.h"
#include "engine/tools/cli/profiling.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/setup.h"
#include "engine/tools/profile/profile_folder.h"
#include "engine/tools/report/certificate_report.h"
#include "engine/tools/report/fits_text.h"
#include "engine/tools/report/plan_report.h"
#include "engine/tools/report/policy_report.h"
#include "engine/tools/report/status_line.h"
#include "engine/tools/report/wrapped.h"

namespace strata {

namespace {

/// The keys in `error` whose budgets the run file leaves to the machine.
std::string open_budgets(std::string_view error, const MemorySection& given, const MemorySection& set) {
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
std::vector<Plan> plans_for(const RunToPlan& loaded, Planner& planner, const MemorySection& as_given,
                            const HostShare& host) {
  try {
    return plans_in(loaded.precision, planner);
  } catch (const BudgetError& error) {
    const std::string open = open_budgets(error.what(), as_given, loaded.run.models.front().config.memory);
    if (open.empty()) throw;
    throw BudgetError(
        fmt::format("{} (unlimited is what the machine has: {}; to plan for another one give {} a number)",
                    error.what(), host.describe(), open),
        error.needed);
  }
}

/// "stage 1 of 2: block.1 to head", or of several chunks each; empty without a pipeline, and of several
/// models.
std::string stage_heading(const Plan& plan, const Model& model) {
  if (plan.merged) return "";
  const PipelinePart& pipeline = plan.only().strategy.pipeline;
  const std::int64_t stages = plan.only().strategy.mesh.pipeline;
  if (stages == 1) return "";
  std::string chunks;
  for (std::size_t c = 0; c < pipeline.first_units.size(); ++c) {
    if (static_cast<std::int32_t>(c) % stages != pipeline.stage) continue;
    const bool is_last = c + 1 == pipeline.first_units.size();
    const auto first = static_cast<std::size_t>(pipeline.first_units[c]);
    const std::size_t last =
        (is_last ? model.units.size() : static_cast<std::size_t>(pipeline.first_units[c + 1])) - 1;
    chunks += fmt::format("{}{}", chunks.empty() ? "" : ", ", model.units[first].name);
    if (last > first) chunks += " to " + model.units[last].name;
  }
  return fmt::format("stage {} of {}: {}\n", pipeline.stage, stages, chunks);
}

/// A pipeline also has a table of who does what when.
void say_schedule(const std::vector<Plan>& plans, const Model& model) {
  const Strategy& first = plans.front().only().strategy;
  if (plans.size() > 1) {
    // Two steps show what goes on from one to the next.
    PipelineShape shape = pipeline_shape(first, first.microbatches);
    if (first.is_asynchronous()) shape.microbatches *= 2;
    std::cout << print_table(shape, training_passes(shape));
  }
  for (const Plan& plan : plans) {
    std::cout << stage_heading(plan, model)
              << print(training_schedule(plan.only().strategy, unit_work(model, plan.only().strategy)),
                       plan.training().program.units);
  }
}

std::string memory_lines(const std::vector<ScratchPart>& scratch, const HostShare& host) {
  return fmt::format("scratch  {}\nRAM      {}\n",
                     scratch.empty() ? "unknown: this program was built without CUDA" : scratch_text(scratch),
                     host.describe());
}

void refuse_overwriting_run(const PlanCommand& command, const RunModels& run) {
  CommandFiles files = files_of(command, run);
  files.outputs.push_back({"--json", command.json});
  files.outputs.push_back({"--trace", command.trace, true});
  add_profile(files, "--profile", command.profile);
  refuse_overwriting(files);
}

}  // namespace

int run_plan(const PlanCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  std::vector<std::string> more;
  if (command.search) more.emplace_back("plan.search=auto");
  const PlanTarget target = plan_target(command, more);
  refuse_overwriting_run(command, target.run);
  check_json_path("--json", command.json);
  check_json_path("--trace", command.trace);
  if (!command.profile.empty()) check_profile_folder(command.profile);
  target.warn();
  if (command.simulate) return simulate_plan(command, target);
  if (command.search && !target.run.is_several) {
    RunConfig open = target.run.models.front().config;
    agree_on_precision(open, false, without_bf16_where_planned(open), nullptr);
    return search_plan(command, target, open);
  }
  RunToPlan loaded = load_to_plan(target);
  const bool is_several = loaded.run.is_several;
  const RunConfig& config = loaded.run.models.front().config;
  const Model& model = loaded.models.front();
  const MemorySection as_given = config.memory;
  const RunShare share = loaded.set_open_budgets();
  const MachineRates profile = planning_rates(config);
  const MachineRates* rates = config.plan.machine.empty() ? nullptr : &profile;
  StatusLine line;
  line.show("planning the run");
  Planner planner(models_to_plan(loaded.configured()), is_several, profile);
  const std::vector<Plan> plans =
      or_explain(command, [&] { return plans_for(loaded, planner, as_given, share.host); });
  const Certificate certificate = certify(plans, planner.models(), profile);
  const double planned = estimate_step(plans, config.plan.lanes, profile).seconds;
  std::int64_t tokens = 0;
  for (const ModelToPlan& each : planner.models()) tokens += each.request.strategy.tokens();
  line.end();
  // A run of several models shows the plan of the first ranks for all.
  const std::span shown(plans.begin(), is_several ? 1 : plans.size());
  const bool has_policies = !is_several && config.optimizer.has_several_policies();
  if (command.json != "-") {
    std::string text =
        fits_text(fullest_tiers(plans), static_cast<double>(tokens) / planned, config.ranks() > 1) +
        target.machine_line;
    for (const Plan& plan : shown)
      text += stage_heading(plan, model) + plan_text(plan, planner.models(), rates);
    text += fmt::format("seconds  {}\n", certificate_text(certificate, planned, tokens));
    if (has_policies) text += policies_text(model);
    text += memory_lines(share.scratch, share.host);
    for (const std::string& said : {loaded.precision.line, loaded.layout})
      if (!is_several && !said.empty()) text += said + '\n';
    std::cout << for_output(text + target.notes(profile));
  }
  if (command.schedule && !is_several) say_schedule(plans, model);
  for (const Plan& plan : plans) {
    if (command.program) std::cout << stage_heading(plan, model) << print(plan.training().program);
  }
  if (!command.profile.empty())
    write_profile(command.profile, command.run_file, profiles_of(planner, plans, profile), {});
  if (!command.trace.empty()) write_planned_trace(command.trace, profiles_of(planner, plans, profile));
  nlohmann::json json = plan_json(plans.front(), planner.models(), rates);
  if (shown.size() > 1) {
    for (const Plan& plan : shown) json["stages"].push_back(plan_json(plan, planner.models(), rates));
  }
  json["certificate"] = certificate_json(certificate, planned);
  json["scratch"] = scratch_json(share.scratch);
  if (has_policies) json["policies"] = policies_json(model);
  write_json(command.json, json);
  return 0;
}

}  // namespace strata
