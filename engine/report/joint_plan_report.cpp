#include "engine/report/joint_plan_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counts.h"
#include "engine/plan/search/needs.h"
#include "engine/report/change_words.h"
#include "engine/report/figures.h"
#include "engine/report/plan_report.h"
#include "engine/report/progress_text.h"

namespace strata {
namespace {

/// Sum of a figure of the models that take part.
template <typename Figure>
auto sum_of(const JointPlan& plan, const Figure& figure) {
  decltype(figure(*plan.models.front())) sum = 0;
  for (const std::optional<Plan>& model : plan.models)
    if (model) sum += figure(*model);
  return sum;
}

std::int64_t active_models(const JointPlan& plan) {
  return sum_of(plan, [](const Plan&) { return std::int64_t{1}; });
}

double computing_share(const JointPlan& plan) {
  return plan.round_seconds > 0 ? plan.computing_seconds / plan.round_seconds : 0;
}

std::string model_text(const JointPlan& whole, const std::optional<Plan>& plan, const ModelLabel& label) {
  if (!plan) return "takes no part";
  std::string memory;
  for (const Tier tier : used_tiers(whole.budgets))
    memory += fmt::format("  {} {}", name_of(tier), format_bytes(plan->training.use[tier].live_bytes));
  return fmt::format("{} parameters, {} steps of {} tokens, {}:{}", rounded_count(plan->parameters),
                     label.steps, label.tokens_per_step, name_of(plan->strategy.computes_in()), memory);
}

nlohmann::json model_json(const std::optional<Plan>& plan, const ModelLabel& label) {
  nlohmann::json json = {{"name", label.name}, {"steps", label.steps}, {"takes_part", plan.has_value()}};
  if (!plan) return json;
  json.update(plan_json(*plan, nullptr));
  json["memory"] = by_tier([&](Tier tier) {
    const TierUse& use = plan->training.use[tier];
    return nlohmann::json{{"live_bytes", use.live_bytes}, {"by_kind", kinds_json(use.by_kind)}};
  });
  return json;
}

}  // namespace

std::string sequence_text(const JointPlan& plan) {
  std::string chosen = "as given", others;
  for (const ComparedSequence& one : plan.sequences) {
    if (one.is_chosen) {
      chosen = one.name;
    } else {
      others +=
          fmt::format("{} {} {:.4f} s", others.empty() ? "; compared with" : ",", one.name, one.seconds);
    }
  }
  return fmt::format("{}, planned {:.4f} s per round ({:.4f} s of computing, {:.0f} %){}", chosen,
                     plan.round_seconds, plan.computing_seconds, 100 * computing_share(plan), others);
}

nlohmann::json sequences_json(const JointPlan& plan) {
  nlohmann::json sequences = nlohmann::json::array();
  for (const ComparedSequence& one : plan.sequences)
    sequences.push_back({{"name", one.name}, {"seconds", one.seconds}, {"chosen", one.is_chosen}});
  return {{"turn_sequences", sequences},
          {"round_seconds", plan.round_seconds},
          {"computing_seconds", plan.computing_seconds}};
}

std::string joint_plan_text(const JointPlan& plan, const std::vector<ModelLabel>& labels,
                            const MachineRates* rates) {
  constexpr std::size_t kLongestName = 40;
  std::string text;
  const auto line = [&](const std::string& content) { text += content + '\n'; };
  std::size_t longest = 0;
  for (const ModelLabel& label : labels) longest = std::max(longest, columns_of(label.name));
  longest = std::min(longest, kLongestName);
  line(fmt::format("models   {}: {} parameters; a round has a step of each", active_models(plan),
                   rounded_count(sum_of(plan, [](const Plan& model) { return model.parameters; }))));
  for (std::size_t m = 0; m < labels.size(); ++m) {
    line(fmt::format("  {:<{}}  {}", shortened(labels[m].name, longest), longest,
                     model_text(plan, plan.models[m], labels[m])));
  }
  for (const Tier tier : used_tiers(plan.budgets)) line(tier_text(tier_plan(plan, tier)));
  for (const Link link : used_links(plan.training, plan.budgets))
    line(traffic_text(plan.training, link, "round"));
  line(fmt::format("FLOPs    {:.3e} per round for the models, {:.3e} executed",
                   sum_of(plan, [](const Plan& model) { return model.flops.model; }),
                   sum_of(plan, [](const Plan& model) { return model.flops.executed; })));
  line(fmt::format("program  {} instructions, {} buffers", plan.training.program.instructions.size(),
                   plan.training.program.buffers.size()));
  line("turns    " + sequence_text(plan));
  if (rates != nullptr) line("at best  " + needs_text(round_needs(plan, *rates), "round"));
  return text;
}

std::string brief_joint_plan_text(const JointPlan& plan) {
  const std::int64_t parameters = sum_of(plan, [](const Plan& model) { return model.parameters; });
  return fmt::format(
      "models   {}, {} parameters together; a round has a step of each\n"
      "memory   {}\n"
      "round    predicted {}",
      active_models(plan), rounded_count(parameters), memory_text(plan), seconds_text(plan.round_seconds));
}

nlohmann::json joint_plan_json(const JointPlan& plan, const std::vector<ModelLabel>& labels,
                               const MachineRates* rates) {
  nlohmann::json models = nlohmann::json::array();
  for (std::size_t m = 0; m < labels.size(); ++m) models.push_back(model_json(plan.models[m], labels[m]));
  nlohmann::json json = {
      {"models", models},
      {"parameters", sum_of(plan, [](const Plan& model) { return model.parameters; })},
      {"memory", by_tier([&](Tier tier) { return tier_json(tier_plan(plan, tier)); })},
      {"traffic", traffic_json(plan.training)},
      {"flops",
       {{"model", sum_of(plan, [](const Plan& model) { return model.flops.model; })},
        {"executed", sum_of(plan, [](const Plan& model) { return model.flops.executed; })}}},
      {"instructions", plan.training.program.instructions.size()},
      {"computing_share", computing_share(plan)}};
  json.update(sequences_json(plan));
  if (rates != nullptr) json.update(needs_json(round_needs(plan, *rates)));
  return json;
}

}  // namespace strata
