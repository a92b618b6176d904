#include "engine/plan/place/finish.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "base/nth.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"
#include "engine/plan/lower/lower.h"

namespace strata {
namespace {

/// Without a host tier the host holds messages to and from the device, and nothing else.
void verify_messages_only(const Program& program) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.tier == Tier::host && buffer.kind != BufferKind::communication)
      throw std::logic_error(fmt::format("program defect: host:{} has no host tier to be on", *buffer.name));
  }
}

/// By unit.
std::vector<std::int64_t> gatherings(const Program& program) {
  std::vector<std::int64_t> counts(program.units.size(), 0);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::all_gather) ++nth(counts, instruction.unit);
  }
  return counts;
}

KeptGathered find_kept_gathered(const Model& model, const ModelPlan& plan) {
  KeptGathered kept;
  if (!plan.strategy.gathers()) return kept;
  const Program plain = lower_training(model, plan.strategy);
  const std::vector<std::int64_t> all = gatherings(plain), left = gatherings(plan.training.program);
  for (std::size_t u = 0; u < all.size(); ++u) kept.units += left[u] < all[u] ? 1 : 0;
  kept.bytes = traffic_of(plain, When::every_step)[Link::all_gather] - plan.training.moved(Link::all_gather);
  return kept;
}

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

}  // namespace

PlannedProgram finish(Program placed, const MemoryRequest& memory) {
  PlannedProgram result;
  verify(placed, memory.budgets());
  if (!memory.host) verify_messages_only(placed);
  result.dependencies = find_dependencies(placed);
  for (const Tier tier : kTiers) result.use[tier] = tier_use(placed, tier);
  result.step_traffic = traffic_of(placed, When::every_step);
  result.save_traffic = traffic_of(placed, When::saving);
  result.start_traffic = traffic_of_a_start(placed);
  result.program = std::move(placed);
  return result;
}

ModelPlan finish(Placement best, const MemoryRequest& memory, const Model& model) {
  ModelPlan plan;
  plan.strategy = std::move(best.strategy);
  plan.training = finish(std::move(best.training), memory);
  for (auto& [interlude, program] : best.interludes)
    plan.interludes.emplace(interlude, finish(std::move(program), memory));
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
  const StateFormat& format = plan.strategy.state_format;
  const DType precision = plan.strategy.precision;
  plan.state_bytes = plan.trained_parameters * (size_of(precision) + format.master_bytes(precision));
  format.kept.for_each([&](Moment moment) {
    plan.state_bytes += format.moment_bytes(moment, parameters_keeping(model, moment));
  });
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    plan.state_bytes += model.units[u].factor_elements * size_of(DType::fp32);
    if (!plan.strategy.has(static_cast<std::int32_t>(u))) continue;
    const std::int64_t updated = plan.strategy.mesh.shard_elements(model.units[u].elements);
    plan.updated_parameters += updated;
    if (plan.strategy.state[u] == Tier::host) plan.host_parameters += updated;
  }
  return plan;
}

}  // namespace strata
