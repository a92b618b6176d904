// strata plan: what a run needs and moves, from the run file, and from the newest checkpoint only what
// train.precision auto keeps.
#include <fmt/format.h>

#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/watchdog.h"
#include "engine/cli/commands.h"
#include "engine/cli/overwriting.h"
#include "engine/cli/plan_target.h"
#include "engine/cli/planning.h"
#include "engine/cli/profiling.h"
#include "engine/cli/say.h"
#include "engine/cli/setup.h"
#include "engine/config/run_models.h"
#include "engine/plan/lower/pipeline.h"
#include "engine/plan/search/joint.h"
#include "engine/plan/search/planned_run.h"
#include "engine/profile/profile_folder.h"
#include "engine/report/certificate_report.h"
#include "engine/report/fits_text.h"
#include "engine/report/joint_plan_report.h"
#include "engine/report/plan_report.h"
#include "engine/report/policy_report.h"
#include "engine/report/status_line.h"
#include "engine/report/wrapped.h"
#include "engine/run/device.h"
#include "engine/run/precision.h"
#include "engine/run/run_to_plan.h"
#include "engine/tune/host_budget.h"
#include "engine/tune/planning_rates.h"

namespace strata {

namespace {

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
std::vector<Plan> plans_for(const RunToPlan& loaded, const RunConfig::MemorySection& as_given,
                            const HostShare& host) {
  const RunConfig& config = loaded.run.models.front().config;
  try {
    return plans_in(loaded.precision, config, loaded.models.front(), planning_rates(config));
  } catch (const BudgetError& error) {
    const std::string open = open_budgets(error.what(), as_given, config.memory);
    if (open.empty()) throw;
    throw BudgetError(
        fmt::format("{} (unlimited is what the machine has: {}; to plan for another one give {} a number)",
                    error.what(), host.describe(), open),
        error.needed);
  }
}

/// "stage 1 of 2: block.1 to head", or of several chunks each; empty without a pipeline.
std::string stage_heading(const Plan& plan, const Model& model) {
  const PipelinePart& pipeline = plan.strategy.pipeline;
  const std::int64_t stages = plan.strategy.mesh.pipeline;
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
  const Strategy& first = plans.front().strategy;
  if (plans.size() > 1) {
    // Two steps show what goes on from one to the next.
    PipelineShape shape = pipeline_shape(first, first.microbatches);
    if (first.is_asynchronous()) shape.microbatches *= 2;
    std::cout << print_table(shape, training_passes(shape));
  }
  for (const Plan& plan : plans) {
    std::cout << stage_heading(plan, model)
              << print(training_schedule(plan.strategy, unit_work(model, plan.strategy)),
                       plan.training.program.units);
  }
}

std::string memory_lines(const std::vector<ScratchPart>& scratch, const HostShare& host) {
  return fmt::format("scratch  {}\nRAM      {}\n",
                     scratch.empty() ? "unknown: this program was built without CUDA" : scratch_text(scratch),
                     host.describe());
}

/// Plans a run file that has several models.
int plan_models(const PlanCommand& command, const PlanTarget& target) {
  RunToPlan loaded = load_to_plan(target);
  const auto [scratch, host] = loaded.set_open_budgets();
  std::vector<ModelLabel> labels;
  std::vector<std::int64_t> steps;
  for (const auto& [name, overrides, config] : loaded.run.models) {
    labels.push_back({name, config.train.steps, config.train.batch * config.data.sequence_length});
    steps.push_back(config.train.steps);
  }
  const RunConfig& first = loaded.run.models.front().config;
  const std::vector<ModelToPlan> models = models_to_plan(loaded.configured());
  const MachineRates profile = planning_rates(first);
  const MachineRates* rates = first.plan.machine.empty() ? nullptr : &profile;
  StatusLine line;
  line.show("planning the run");
  JointPlanner planner(models, profile);
  const std::vector<JointPlan> plans = or_explain(command, [&] { return planner.plan(steps); });
  const Certificate certificate = certify(plans, models, profile);
  const double planned = estimate_step(planner.ranks_of(plans), {}, plans, first.plan.lanes, profile).seconds;
  const JointPlan& plan = plans.front();
  std::int64_t tokens = 0;
  for (const ModelLabel& label : labels) tokens += label.tokens_per_step;
  line.end();
  if (command.json != "-") {
    const std::string text =
        fits_text(fullest_tiers(plans), static_cast<double>(tokens) / planned, first.ranks() > 1) +
        target.machine_line + joint_plan_text(plan, labels, rates) + "seconds  " +
        certificate_text(certificate, planned, tokens) + '\n' + memory_lines(scratch, host) +
        target.notes(profile);
    std::cout << for_output(text);
  }
  for (const JointPlan& of_role : plans) {
    if (command.program) std::cout << print(of_role.training.program);
  }
  if (!command.profile.empty())
    write_profile(command.profile, command.run_file, profiles_of(planner, plans, profile), {});
  if (!command.trace.empty()) write_planned_trace(command.trace, profiles_of(planner, plans, profile));
  nlohmann::json json = joint_plan_json(plan, labels, rates);
  json["certificate"] = certificate_json(certificate, planned);
  json["scratch"] = scratch_json(scratch);
  write_json(command.json, json);
  return 0;
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
  if (target.run.is_several) return plan_models(command, target);
  if (command.search) {
    RunConfig open = target.run.models.front().config;
    agree_on_precision(open, false, without_bf16_where_planned(open), nullptr);
    return search_plan(command, target, open);
  }
  RunToPlan loaded = load_to_plan(target);
  const RunConfig& config = loaded.run.models.front().config;
  const Model& model = loaded.models.front();
  const RunConfig::MemorySection as_given = config.memory;
  const RunShare share = loaded.set_open_budgets();
  StatusLine line;
  line.show("planning the run");
  const std::vector<Plan> plans =
      or_explain(command, [&] { return plans_for(loaded, as_given, share.host); });
  const MachineRates profile = planning_rates(config);
  const MachineRates* rates = config.plan.machine.empty() ? nullptr : &profile;
  const Certificate certificate = certify(plans, model, profile);
  const double planned = estimate_step(ranks_of(plans), plans, {}, config.plan.lanes, profile).seconds;
  const std::int64_t tokens = config.train.batch * config.data.sequence_length;
  line.end();
  if (command.json != "-") {
    std::string text =
        fits_text(fullest_tiers(plans), static_cast<double>(tokens) / planned, config.ranks() > 1) +
        target.machine_line;
    for (const Plan& plan : plans) text += stage_heading(plan, model) + plan_text(plan, model, rates);
    text += fmt::format("seconds  {}\n", certificate_text(certificate, planned, tokens));
    if (!config.optimizer.groups.empty()) text += policies_text(model);
    text += memory_lines(share.scratch, share.host);
    for (const std::string& said : {loaded.precision.line, loaded.layout})
      if (!said.empty()) text += said + '\n';
    std::cout << for_output(text + target.notes(profile));
  }
  if (command.schedule) say_schedule(plans, model);
  for (const Plan& plan : plans) {
    if (command.program) std::cout << stage_heading(plan, model) << print(plan.training.program);
  }
  if (!command.profile.empty())
    write_profile(command.profile, command.run_file, profiles_of(plans, config, model, profile), {});
  if (!command.trace.empty()) write_planned_trace(command.trace, profiles_of(plans, config, model, profile));
  nlohmann::json json = plan_json(plans.front(), rates);
  if (plans.size() > 1) {
    for (const Plan& plan : plans) json["stages"].push_back(plan_json(plan, rates));
  }
  json["certificate"] = certificate_json(certificate, planned);
  json["scratch"] = scratch_json(share.scratch);
  if (!config.optimizer.groups.empty()) json["policies"] = policies_json(model);
  write_json(command.json, json);
  return 0;
}

}  // namespace strata
