#include "engine/tools/report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counts.h"
#include "engine/model/model.h"
#include "engine/tools/report/change_words.h"
#include "engine/tools/report/figures.h"
#include "engine/tools/report/model_plan_report.h"
#include "engine/tools/report/progress_text.h"

namespace strata {
namespace {

/// Sum of a figure of the models that take part.
template <typename Figure>
auto sum_of(const Plan& plan, const Figure& figure) {
  decltype(figure(*plan.models.front())) sum = 0;
  for (const std::optional<ModelPlan>& model : plan.models)
    if (model) sum += figure(*model);
  return sum;
}

std::int64_t active_models(const Plan& plan) {
  return sum_of(plan, [](const ModelPlan&) { return std::int64_t{1}; });
}

double computing_share(const Plan& plan) {
  const MergedPrograms& merged = plan.merged.value();
  return merged.round_seconds > 0 ? merged.computing_seconds / merged.round_seconds : 0;
}

std::string model_text(const Plan& whole, const std::optional<ModelPlan>& plan, const ModelToPlan& model) {
  if (!plan) return "takes no part";
  std::string memory;
  for (const Tier tier : used_tiers(whole.budgets))
    memory += fmt::format("  {} {}", name_of(tier), format_bytes(plan->training.use[tier].live_bytes));
  return fmt::format("{} parameters, {} steps of {} tokens, {}:{}", rounded_count(plan->parameters),
                     model.steps, model.request.strategy.tokens(), name_of(plan->strategy.computes_in()),
                     memory);
}

nlohmann::json model_json(const std::optional<ModelPlan>& plan, const ModelToPlan& model) {
  nlohmann::json json = {{"name", model.name}, {"steps", model.steps}, {"takes_part", plan.has_value()}};
  if (!plan) return json;
  json.update(model_plan_json(*plan, nullptr));
  json["memory"] = by_tier([&](Tier tier) {
    const TierUse& use = plan->training.use[tier];
    return nlohmann::json{{"live_bytes", use.live_bytes}, {"by_kind", kinds_json(use.by_kind)}};
  });
  return json;
}

std::string merged_text(const Plan& plan, std::span<const ModelToPlan> models, const MachineRates* rates) {
  constexpr std::size_t kLongestName = 40;
  std::string text;
  const auto line = [&](const std::string& content) { text += content + '\n'; };
  std::size_t longest = 0;
  for (const ModelToPlan& model : models) longest = std::max(longest, columns_of(model.name));
  longest = std::min(longest, kLongestName);
  line(fmt::format("models   {}: {} parameters; a round has a step of each", active_models(plan),
                   rounded_count(sum_of(plan, [](const ModelPlan& model) { return model.parameters; }))));
  for (std::size_t m = 0; m < models.size(); ++m) {
    line(fmt::format("  {:<{}}  {}", shortened(models[m].name, longest), longest,
                     model_text(plan, plan.models[m], models[m])));
  }
  for (const Tier tier : used_tiers(plan.budgets)) line(tier_text(tier_plan(plan, tier)));
  for (const Link link : used_links(plan.training(), plan.budgets))
    line(traffic_text(plan.training(), link, "round"));
  line(fmt::format("FLOPs    {:.3e} per round for the models, {:.3e} executed",
                   sum_of(plan, [](const ModelPlan& model) { return model.flops.model; }),
                   sum_of(plan, [](const ModelPlan& model) { return model.flops.executed; })));
  line(fmt::format("program  {} instructions, {} buffers", plan.training().program.instructions.size(),
                   plan.training().program.buffers.size()));
  line("turns    " + sequence_text(plan));
  if (rates != nullptr) line("at best  " + needs_text(step_needs(plan, *rates), "round"));
  return text;
}

std::string brief_merged_text(const Plan& plan) {
  const std::int64_t parameters = sum_of(plan, [](const ModelPlan& model) { return model.parameters; });
  return fmt::format(
      "models   {}, {} parameters together; a round has a step of each\n"
      "memory   {}\n"
      "round    predicted {}",
      active_models(plan), rounded_count(parameters), memory_text(plan),
      seconds_text(plan.merged->round_seconds));
}

nlohmann::json merged_json(const Plan& plan, std::span<const ModelToPlan> models) {
  nlohmann::json of_models = nlohmann::json::array();
  for (std::size_t m = 0; m < models.size(); ++m) of_models.push_back(model_json(plan.models[m], models[m]));
  nlohmann::json json = {
      {"models", of_models},
      {"parameters", sum_of(plan, [](const ModelPlan& model) { return model.parameters; })},
      {"traffic", traffic_json(plan.training())},
      {"flops",
       {{"model", sum_of(plan, [](const ModelPlan& model) { return model.flops.model; })},
        {"executed", sum_of(plan, [](const ModelPlan& model) { return model.flops.executed; })}}},
      {"instructions", plan.training().program.instructions.size()},
      {"computing_share", computing_share(plan)}};
  json.update(sequences_json(plan));
  return json;
}

std::string brief_text_of_one(const Plan& plan, double seconds, const MachineRates& rates) {
  const Strategy& strategy = plan.only().strategy;
  const Mesh& mesh = strategy.mesh;
  const bool is_of_several = mesh.ranks() > 1;
  return fmt::format(
      "memory   {}{}\n"
      "step     {} sequences of {} tokens{}{}, {}; predicted {}, limited by {}",
      memory_text(plan), is_of_several ? ", on each rank" : "",
      strategy.microbatch.batch * strategy.microbatches * mesh.data(),
      strategy.microbatch.sequence * mesh.context,
      strategy.microbatches > 1 ? fmt::format(" in microbatches of {}", strategy.microbatch.batch) : "",
      is_of_several ? fmt::format(" on {} ranks", mesh.ranks()) : "", strata::name_of(strategy.computes_in()),
      seconds_text(seconds), step_needs(plan, rates).binding());
}

}  // namespace

std::string scratch_text(const std::vector<ScratchPart>& parts) {
  std::string each;
  for (const ScratchPart& part : parts)
    each += fmt::format("{}{} {}", each.empty() ? "" : ", ", part.name, format_bytes(part.bytes));
  return fmt::format("{} besides the plan's memory: {}", format_bytes(total(parts)), each);
}

nlohmann::json scratch_json(const std::vector<ScratchPart>& parts) {
  nlohmann::json by_name = nlohmann::json::object();
  for (const ScratchPart& part : parts) by_name[part.name] = part.bytes;
  return {{"planned_bytes", total(parts)}, {"parts", by_name}};
}

std::string needs_text(const StepNeeds& needs, std::string_view of) {
  return fmt::format(
      "{:.3f} s per {}, limited by {} (compute {:.3f}, h2d {:.3f}, d2h {:.3f}, host memory {:.3f}, nvme "
      "{:.3f})",
      needs.longest(), of, needs.binding(), needs.compute, needs.h2d, needs.d2h, needs.host_memory,
      needs.nvme);
}

nlohmann::json needs_json(const StepNeeds& needs) {
  return {{"needs",
           {{"seconds", needs.longest()},
            {"by", needs.binding()},
            {"compute", needs.compute},
            {"h2d", needs.h2d},
            {"d2h", needs.d2h},
            {"host_memory", needs.host_memory},
            {"nvme", needs.nvme}}}};
}

std::string brief_model_text(const Model& whole) {
  const double trained =
      static_cast<double>(whole.trained_parameters()) / static_cast<double>(whole.parameters());
  return fmt::format("model    {}, {} parameters{}", whole.architecture.model_type,
                     rounded_count(whole.parameters()),
                     whole.freezes() ? fmt::format(", {:.3g} % of them trained", 100 * trained) : "");
}

std::string sequence_text(const Plan& plan) {
  std::string chosen = "as given", others;
  for (const ComparedSequence& one : plan.merged->sequences) {
    if (one.is_chosen) {
      chosen = one.name;
    } else {
      others +=
          fmt::format("{} {} {:.4f} s", others.empty() ? "; compared with" : ",", one.name, one.seconds);
    }
  }
  return fmt::format("{}, planned {:.4f} s per round ({:.4f} s of computing, {:.0f} %){}", chosen,
                     plan.merged->round_seconds, plan.merged->computing_seconds, 100 * computing_share(plan),
                     others);
}

nlohmann::json sequences_json(const Plan& plan) {
  nlohmann::json sequences = nlohmann::json::array();
  for (const ComparedSequence& one : plan.merged->sequences)
    sequences.push_back({{"name", one.name}, {"seconds", one.seconds}, {"chosen", one.is_chosen}});
  return {{"turn_sequences", sequences},
          {"round_seconds", plan.merged->round_seconds},
          {"computing_seconds", plan.merged->computing_seconds}};
}

std::string plan_text(const Plan& plan, std::span<const ModelToPlan> models, const MachineRates* rates) {
  return plan.merged ? merged_text(plan, models, rates)
                     : text_of_only_model(plan, *models.front().model, rates);
}

std::string brief_plan_text(const Plan& plan, double seconds, const MachineRates& rates) {
  return plan.merged ? brief_merged_text(plan) : brief_text_of_one(plan, seconds, rates);
}

nlohmann::json plan_json(const Plan& plan, std::span<const ModelToPlan> models, const MachineRates* rates) {
  nlohmann::json json = plan.merged ? merged_json(plan, models) : model_plan_json(plan.only(), rates);
  json["memory"] = by_tier([&](Tier tier) { return tier_json(tier_plan(plan, tier)); });
  if (rates != nullptr) json.update(needs_json(step_needs(plan, *rates)));
  return json;
}

}  // namespace strata
