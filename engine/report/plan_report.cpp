#include "engine/report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace strata {
namespace {

const TierUse& larger_use(const Plan& plan, Tier tier) {
  const auto use = [&](const PlannedProgram& program) -> const TierUse& {
    return tier == Tier::device ? program.device : program.host;
  };
  const TierUse& training = use(plan.training);
  return plan.validation && use(*plan.validation).peak_bytes > training.peak_bytes ? use(*plan.validation) : training;
}

Bytes budget_of(const Plan& plan, Tier tier) { return tier == Tier::device ? plan.device_budget : plan.host_budget; }

std::string_view name_of(Order order) { return order == Order::layer_major ? "layer_major" : "microbatch_major"; }

std::int64_t units_on_device(const Plan& plan) {
  return std::count(plan.strategy.state.begin(), plan.strategy.state.end(), Tier::device);
}

}  // namespace

nlohmann::json tier_json(const Plan& plan, Tier tier) {
  const TierUse& use = larger_use(plan, tier);
  nlohmann::json by_kind = nlohmann::json::object();
  for (const BufferKind kind : kBufferKinds) {
    by_kind[std::string(strata::name_of(kind))] = use.by_kind[static_cast<std::size_t>(kind)];
  }
  const Bytes budget = budget_of(plan, tier);
  return {{"budget_bytes", budget == kUnlimited ? nlohmann::json() : nlohmann::json(budget)},
          {"planned_peak_bytes", plan.arena_bytes(tier)},
          {"by_kind", by_kind}};
}

std::string tier_text(const Plan& plan, Tier tier) {
  const TierUse& use = larger_use(plan, tier);
  std::string kinds;
  for (const BufferKind kind : kBufferKinds) {
    const Bytes bytes = use.by_kind[static_cast<std::size_t>(kind)];
    if (bytes == 0) continue;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", strata::name_of(kind), format_bytes(bytes));
  }
  return fmt::format("{:<7} peak {} of {}: {}", strata::name_of(tier), format_bytes(plan.arena_bytes(tier)),
                     format_bytes(budget_of(plan, tier)), kinds);
}

std::string plan_text(const Plan& plan, const Model& model, const MachineRates* rates) {
  std::string text;
  const auto line = [&](const std::string& content) { text += content + '\n'; };
  const Strategy& strategy = plan.strategy;
  line(fmt::format("model    {}: {:.2f} M parameters in {} units", model.architecture.model_type,
                   static_cast<double>(plan.parameters) / 1e6, model.units.size()));
  line(fmt::format("step     {} microbatches of {} x {} tokens, {}, {}, {}", strategy.microbatches, strategy.microbatch.batch,
                   strategy.microbatch.sequence, name_of(strategy.order), strata::name_of(strategy.precision),
                   fmt::format("{} of {} blocks recompute their activations",
                               std::count(strategy.save.begin() + 1, strategy.save.end() - 1, false),
                               strategy.save.size() - 2)));
  line(fmt::format("state    {} of {} units keep theirs on the device, the others on the host", units_on_device(plan),
                   model.units.size()));
  for (const Tier tier : kTiers) line(tier_text(plan, tier));
  line(fmt::format("h2d      {} per step", format_bytes(plan.training.h2d_bytes)));
  line(fmt::format("d2h      {} per step", format_bytes(plan.training.d2h_bytes)));
  line(fmt::format("FLOPs    {:.3e} per step for the model, {:.3e} executed", plan.flops.model, plan.flops.executed));
  line(fmt::format("program  {} instructions, {} buffers", plan.training.program.instructions.size(),
                   plan.training.program.buffers.size()));
  if (rates != nullptr) {
    const StepBound bound = step_bound(plan, *rates);
    line(fmt::format("bound    {:.3f} s per step by {} (compute {:.3f}, h2d {:.3f}, d2h {:.3f}, host memory {:.3f})",
                     bound.seconds(), bound.binding(), bound.compute, bound.h2d, bound.d2h, bound.host_memory));
  }
  return text;
}

nlohmann::json plan_json(const Plan& plan, const MachineRates* rates) {
  nlohmann::json json = {
      {"parameters", plan.parameters},
      {"tokens_per_step", plan.tokens_per_step},
      {"order", name_of(plan.strategy.order)},
      {"units_with_device_state", units_on_device(plan)},
      {"memory", {{"device", tier_json(plan, Tier::device)}, {"host", tier_json(plan, Tier::host)}}},
      {"traffic",
       {{"h2d", {{"planned_bytes", plan.training.h2d_bytes}}}, {"d2h", {{"planned_bytes", plan.training.d2h_bytes}}}}},
      {"flops", {{"model", plan.flops.model}, {"executed", plan.flops.executed}}},
      {"instructions", plan.training.program.instructions.size()},
  };
  if (rates != nullptr) {
    const StepBound bound = step_bound(plan, *rates);
    json["bound_seconds"] = bound.seconds();
    json["bound"] = {{"by", bound.binding()},     {"compute", bound.compute}, {"h2d", bound.h2d},
                     {"d2h", bound.d2h},          {"host_memory", bound.host_memory}};
  }
  return json;
}

}  // namespace strata
