#include "engine/tools/report/model_plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/counts.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/planner/needs.h"
#include "engine/tools/report/figures.h"
#include "engine/tools/report/plan_report.h"

namespace strata {
namespace {

/// That of a pipeline is its schedule.
std::string_view order_of(const Strategy& strategy) {
  return strategy.mesh.pipeline > 1 ? word_of(strategy.pipeline.schedule) : word_of(strategy.order);
}

/// Those of the plan's stage, or of them those whose state lives on the device.
std::int64_t count_units(const ModelPlan& plan, bool on_device) {
  std::int64_t count = 0;
  for (std::int32_t u = 0; u < std::ssize(plan.strategy.state); ++u)
    count += plan.strategy.has(u) && (!on_device || plan.strategy.on_device(u)) ? 1 : 0;
  return count;
}

/// Parameters as they were before later updates, as many of them as are kept at once.
Bytes stashed_bytes(const ModelPlan& plan) {
  Bytes of_step = 0;
  for (const Instruction& instruction : plan.training.program.instructions)
    if (instruction.operation == Operation::stash) of_step += instruction.writes[0].bytes();
  return of_step / plan.strategy.updates() * plan.strategy.updates_behind();
}

/// Flat parameters that are kept packed, and what they have as passes read them.
struct PackedBytes {
  Bytes packed = 0, whole = 0;
};

PackedBytes packed_bytes(const Program& program) {
  PackedBytes bytes;
  std::set<std::pair<std::int32_t, Role>> counted;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation != Operation::unpack) continue;
    const Operand& whole = instruction.writes[0];
    if (!counted.emplace(instruction.unit, whole.role).second) continue;
    bytes.packed += instruction.reads[0].bytes();
    bytes.whole += whole.bytes();
  }
  return bytes;
}

/// What an asynchronous schedule does to the run.
std::string stale_text(const ModelPlan& plan) {
  const Strategy& strategy = plan.strategy;
  const std::int64_t behind = strategy.updates_behind(), stages = strategy.mesh.pipeline;
  const std::string kept =
      fmt::format("{} version{} of weights {} kept here, {} more than one takes", behind + 1,
                  behind == 0 ? "" : "s", behind == 0 ? "is" : "are", format_bytes(stashed_bytes(plan)));
  if (strategy.updates() == 1)
    return fmt::format("{} changes the mathematics: each step's gradients are of weights one step old; {}",
                       word_of(strategy.pipeline.schedule), kept);
  return fmt::format(
      "{} changes the mathematics: {} updates a step, one a microbatch, whose gradients on stage s are of "
      "weights that lack the last {} - s; {}",
      word_of(strategy.pipeline.schedule), strategy.updates(), stages - 1, kept);
}

double seconds_of_sampled_token(const ModelPlan& plan, const MachineRates& rates) {
  const PlannedProgram& sampling = plan.interludes.at(Interlude::sampling);
  return simulated_seconds(sampling.program, sampling.dependencies, rates);
}

std::string samples_text(const ModelPlan& plan, const MachineRates* rates) {
  const SampleShape& samples = plan.strategy.samples;
  std::string text =
      fmt::format("{} prompt{}, of at most {} tokens with what follows; a token of each takes ",
                  samples.prompts, samples.prompts == 1 ? "" : "s", samples.longest);
  text += fmt::format("a forward pass of {} x {} tokens", samples.of_rank.batch, samples.of_rank.sequence);
  if (rates != nullptr) text += fmt::format(", {:.3f} s", seconds_of_sampled_token(plan, *rates));
  return text;
}

/// "saved of 12 blocks: attention; of 4: attention, sum", or what recomputing means.
std::string saved_text(const ModelPlan& plan, const Model& model) {
  const Strategy& strategy = plan.strategy;
  const auto compute = unit_compute(model, strategy.precision, strategy.microbatch);
  std::map<std::vector<std::string>, std::int64_t> units;
  std::int64_t saving_nothing = 0, all = 0;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::vector<UnitPasses::Level>& levels = compute->passes(model.units[u]).levels;
    if (levels.size() == 1 || !strategy.has(static_cast<std::int32_t>(u))) continue;
    ++all;
    const std::size_t level = std::min(strategy.saved_level[u], levels.size() - 1);
    if (level == 0) ++saving_nothing;
    if (level > 0 && level + 1 < levels.size()) ++units[levels[level].saved];
  }
  std::string text = fmt::format("{} of {} blocks recompute their activations", saving_nothing, all);
  for (const auto& [names, count] : units)
    text += fmt::format(", {} all but {}", count, fmt::join(names, ", "));
  return text;
}

/// Counts what is trained, and is a mean if tensors have different rules.
nlohmann::json state_bytes_per_parameter(const ModelPlan& plan) {
  if (plan.state_bytes % plan.trained_parameters == 0) return plan.state_bytes / plan.trained_parameters;
  return static_cast<double>(plan.state_bytes) / static_cast<double>(plan.trained_parameters);
}

std::string state_bytes_text(const ModelPlan& plan) {
  const nlohmann::json bytes = state_bytes_per_parameter(plan);
  return bytes.is_number_float() ? fmt::format("{:.1f}", bytes.get<double>()) : bytes.dump();
}

}  // namespace

std::string text_of_only_model(const Plan& run, const Model& model, const MachineRates* rates) {
  const ModelPlan& plan = run.only();
  std::string text;
  const auto line = [&](const std::string& content) { text += content + '\n'; };
  const Strategy& strategy = plan.strategy;
  line(fmt::format(
      "model    {}: {} parameters in {} units{}", model.architecture.model_type,
      rounded_count(plan.parameters), model.units.size(),
      model.freezes() ? fmt::format(", {} of them trained", rounded_count(plan.trained_parameters)) : ""));
  line(fmt::format("step     {} microbatches of {} x {} tokens, {}, {}, {}", strategy.microbatches,
                   strategy.microbatch.batch, strategy.microbatch.sequence, order_of(strategy),
                   strata::name_of(strategy.computes_in()), saved_text(plan, model)));
  if (strategy.is_asynchronous()) line("weights  " + stale_text(plan));
  line(fmt::format(
      "state    {} bytes per {}, {} in all; on the device for {} of {} units", state_bytes_text(plan),
      model.freezes() ? fmt::format("trained parameter, {} per frozen one", size_of(strategy.precision))
                      : "parameter",
      format_bytes(plan.state_bytes), count_units(plan, true), count_units(plan, false)));
  if (const PackedBytes bytes = packed_bytes(plan.training.program); bytes.packed > 0)
    line(fmt::format("packed   parameters of blocks are kept and travel in {}, in place of {}",
                     format_bytes(bytes.packed), format_bytes(bytes.whole)));
  if (strategy.gathers()) {
    line(fmt::format(
        "gathered {} of {} units stay whole from one pass to another, so that {} less are sent per step",
        plan.kept_gathered.units, count_units(plan, false), format_bytes(plan.kept_gathered.bytes)));
  }
  for (const Tier tier : used_tiers(run.budgets)) line(tier_text(tier_plan(run, tier)));
  for (const Link link : used_links(plan.training, run.budgets))
    line(traffic_text(plan.training, link, "step"));
  line(fmt::format("FLOPs    {:.3e} per step for the model, {:.3e} executed", plan.flops.model,
                   plan.flops.executed));
  line(fmt::format("program  {} instructions, {} buffers", plan.training.program.instructions.size(),
                   plan.training.program.buffers.size()));
  if (rates != nullptr) line("at best  " + needs_text(step_needs(run, *rates), "step"));
  if (plan.interludes.contains(Interlude::sampling)) line("samples  " + samples_text(plan, rates));
  return text;
}

nlohmann::json model_plan_json(const ModelPlan& plan, const MachineRates* rates) {
  nlohmann::json json = {
      {"parameters", plan.parameters},
      {"trained_parameters", plan.trained_parameters},
      {"tokens_per_step", plan.training.program.loss_terms},
      {"order", order_of(plan.strategy)},
      {"precision", strata::name_of(plan.strategy.computes_in())},
      {"units_with_device_state", count_units(plan, true)},
      {"state_bytes_per_parameter", state_bytes_per_parameter(plan)},
      {"traffic", traffic_json(plan.training)},
      {"flops", {{"model", plan.flops.model}, {"executed", plan.flops.executed}}},
      {"instructions", plan.training.program.instructions.size()},
  };
  if (plan.strategy.is_asynchronous()) {
    json["stale_weights"] = {{"changes", stale_text(plan)},
                             {"updates_behind", plan.strategy.updates_behind()},
                             {"updates_per_step", plan.strategy.updates()},
                             {"versions", plan.strategy.updates_behind() + 1},
                             {"stashed_bytes", stashed_bytes(plan)}};
  }
  if (const PackedBytes bytes = packed_bytes(plan.training.program); bytes.packed > 0)
    json["packed"] = {{"bytes", bytes.packed}, {"unpacked_bytes", bytes.whole}};
  if (plan.strategy.gathers()) {
    json["kept_gathered"] = {{"units", plan.kept_gathered.units}, {"unsent_bytes", plan.kept_gathered.bytes}};
  }
  if (plan.interludes.contains(Interlude::sampling)) {
    json["samples"] = {{"prompts", plan.strategy.samples.prompts},
                       {"max_length", plan.strategy.samples.longest}};
    if (rates != nullptr) json["samples"]["seconds_per_token"] = seconds_of_sampled_token(plan, *rates);
  }
  return json;
}

}  // namespace strata
