#include "engine/plan/search/planner.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/plan/lower/lower.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/search/refusal.h"
#include "engine/plan/search/search.h"
#include "engine/plan/search/size_limit.h"

namespace strata {
namespace {

/// What the host holds of a run without a host tier: messages to and from the device, and nothing else.
Bytes message_bytes(const Program& program) {
  Bytes sum = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.tier == Tier::host && buffer.kind == BufferKind::communication) sum += buffer.bytes;
  }
  return sum;
}

PlannedProgram finish(Program placed, const Plan& plan, bool has_host_tier) {
  PlannedProgram result;
  const Bytes host = has_host_tier ? plan.budget(Tier::host) : message_bytes(placed);
  verify(placed, {plan.budget(Tier::device), host, plan.budget(Tier::nvme)});
  result.dependencies = find_dependencies(placed);
  for (const Tier tier : kTiers) result.use[static_cast<std::size_t>(tier)] = tier_use(placed, tier);
  result.step_traffic = traffic_of(placed, When::every_step);
  result.save_traffic = traffic_of(placed, When::saving);
  result.start_traffic = traffic_of_a_start(placed);
  result.program = std::move(placed);
  return result;
}

/// By unit.
std::vector<std::int64_t> gatherings(const Program& program) {
  std::vector<std::int64_t> counts(program.units.size(), 0);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::all_gather) ++counts[static_cast<std::size_t>(instruction.unit)];
  }
  return counts;
}

KeptGathered find_kept_gathered(const Model& model, const Plan& plan) {
  KeptGathered kept;
  if (!plan.strategy.gathers()) return kept;
  const Program plain = lower_training(model, plan.strategy);
  const std::vector<std::int64_t> all = gatherings(plain), left = gatherings(plan.training.program);
  for (std::size_t u = 0; u < all.size(); ++u) kept.units += left[u] < all[u] ? 1 : 0;
  kept.bytes = traffic_of(plain, When::every_step)[Link::all_gather] - plan.training.moved(Link::all_gather);
  return kept;
}

}  // namespace

Bytes Plan::arena_bytes(Tier tier) const {
  const auto peak = [&](const PlannedProgram& program) { return program.of(tier).peak_bytes; };
  return validation ? std::max(peak(training), peak(*validation)) : peak(training);
}

Plan make_plan(const RunConfig& config, const Model& model) {
  return make_plan(config, model, planning_rates(config));
}

namespace {

double share_of_flops(const Model& model, const Strategy& strategy) {
  const GraphShape shape = {.precision = strategy.precision, .microbatch = strategy.microbatch};
  double all = 0, own = 0;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const UnitGraph& graph = model.graph_of(model.units[u]);
    const double flops = forward_flops(graph, shape) + backward_flops(graph, shape);
    all += flops;
    if (strategy.has(static_cast<std::int32_t>(u))) own += flops;
  }
  return own / all;
}

Plan finish(Placement best, const RunConfig& config, const Model& model) {
  Plan plan;
  const bool nvme_is_used = !config.memory.nvme_path.empty();
  plan.budgets = {config.memory.device, config.memory.host.value_or(kUnlimited),
                  nvme_is_used ? config.memory.nvme_size : 0};
  plan.strategy = std::move(best.strategy);
  plan.training = finish(std::move(best.training), plan, config.memory.host.has_value());
  if (best.validation)
    plan.validation = finish(std::move(*best.validation), plan, config.memory.host.has_value());
  const Mesh& mesh = plan.strategy.mesh;
  MicrobatchShape whole = plan.strategy.microbatch;
  whole.sequence *= mesh.context;
  plan.flops = {training_flops(model, whole, plan.strategy.microbatches),
                executed_flops(plan.training.program)};
  if (mesh.pipeline > 1) plan.flops.model *= share_of_flops(model, plan.strategy);
  plan.flops.model /= static_cast<double>(mesh.tensor * mesh.context);
  plan.kept_gathered = find_kept_gathered(model, plan);
  plan.parameters = model.parameters();
  plan.trained_parameters = model.trained_parameters();
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    if (!plan.strategy.has(static_cast<std::int32_t>(u))) continue;
    const std::int64_t updated = plan.strategy.mesh.shard_elements(model.units[u].elements);
    plan.updated_parameters += updated;
    if (plan.strategy.state[u] == Tier::host) plan.host_parameters += updated;
  }
  return plan;
}

/// All stages' programs must meet, and all ranks must know where.
void join(std::vector<Plan>& plans) {
  std::set<Channel> channels;
  std::vector<RankProgram> training, validation;
  for (std::size_t stage = 0; stage < plans.size(); ++stage) {
    const Plan& plan = plans[stage];
    const auto rank = static_cast<std::int64_t>(stage) * plan.strategy.mesh.tensor;
    const auto add = [&](const PlannedProgram& program, std::vector<RankProgram>& programs) {
      add_channels(program.program, static_cast<std::int32_t>(stage), channels);
      programs.push_back({rank, &program.program, &program.dependencies});
    };
    add(plan.training, training);
    if (plan.validation) add(*plan.validation, validation);
  }
  if (plans.size() > 1) {
    verify_ranks(training);
    verify_ranks(validation);
  }
  for (Plan& plan : plans) plan.channels = channels;
}

}  // namespace

std::vector<Plan> make_plans(const RunConfig& config, const Model& model, const MachineRates& rates) {
  check_size(config, model);
  std::vector<CheapestSearch> searches = searches_of(config, model, rates);
  std::vector<Plan> plans;
  for (CheapestSearch& search : searches) {
    Shortage shortage;
    std::optional<Placement> best = search.find(config, shortage);
    if (!best) throw budget_error(config, model, rates, std::move(searches));
    plans.push_back(finish(std::move(*best), config, model));
  }
  join(plans);
  return plans;
}

Plan make_plan(const RunConfig& config, const Model& model, const MachineRates& rates) {
  return std::move(make_plans(config, model, rates).front());
}

}  // namespace strata
