#include "engine/tools/report/figures.h"

#include <fmt/format.h>

namespace strata {
namespace {

Bytes measured_peak(const Measurements& measured, Tier tier) {
  return measured.count.peak_bytes[tier];
}

}  // namespace

TierPlan tier_plan(const Plan& plan, Tier tier) {
  const TierUse* use = &plan.training().use[tier];
  for (const auto& [interlude, program] : plan.interludes())
    if (program.use[tier].peak_bytes > use->peak_bytes) use = &program.use[tier];
  return {.tier = tier,
          .budget = plan.budgets[tier],
          .peak_bytes = plan.arena_bytes(tier),
          .by_kind = use->by_kind};
}

std::string memory_text(const Plan& plan) {
  std::string text;
  for (const Tier tier : used_tiers(plan.budgets)) {
    const TierPlan of_tier = tier_plan(plan, tier);
    text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", name_of(tier),
                        format_bytes(of_tier.peak_bytes), format_bytes(of_tier.budget));
  }
  return text;
}

std::vector<Tier> used_tiers(const TierBudgets& budgets) {
  if (has_drives(budgets)) return {kTiers.begin(), kTiers.end()};
  return {Tier::device, Tier::host};
}

std::vector<Link> used_links(const PlannedProgram& training, const TierBudgets& budgets) {
  std::vector<Link> links;
  for (const Link link : kLinks) {
    const bool is_of_drives = link == Link::nvme_read || link == Link::nvme_write;
    const bool is_of_ranks = lane_of(link) == Lane::comm || lane_of(link) == Lane::send;
    const bool is_used = is_of_ranks ? training.moved(link) > 0 : !is_of_drives || has_drives(budgets);
    if (is_used) links.push_back(link);
  }
  return links;
}

nlohmann::json kinds_json(const EnumArray<BufferKind, Bytes>& by_kind) {
  nlohmann::json json = nlohmann::json::object();
  for (const BufferKind kind : kBufferKinds) json[std::string(name_of(kind))] = by_kind[kind];
  return json;
}

std::string kinds_text(const EnumArray<BufferKind, Bytes>& by_kind) {
  std::string text;
  for (const BufferKind kind : kBufferKinds) {
    const Bytes bytes = by_kind[kind];
    if (bytes > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(kind), format_bytes(bytes));
  }
  return text;
}

nlohmann::json tier_json(const TierPlan& plan) {
  return {{"budget_bytes", plan.budget == kUnlimited ? nlohmann::json() : nlohmann::json(plan.budget)},
          {"planned_peak_bytes", plan.peak_bytes},
          {"by_kind", kinds_json(plan.by_kind)}};
}

nlohmann::json tier_json(const TierPlan& plan, const Measurements& measured) {
  nlohmann::json json = tier_json(plan);
  json["measured_peak_bytes"] = measured_peak(measured, plan.tier);
  return json;
}

std::string tier_text(const TierPlan& plan) {
  const std::string kinds = kinds_text(plan.by_kind);
  return fmt::format("{:<7} peak {} of {}{}", name_of(plan.tier), format_bytes(plan.peak_bytes),
                     format_bytes(plan.budget), kinds.empty() ? "" : ": " + kinds);
}

std::string tier_text(const TierPlan& plan, const Measurements& measured) {
  return fmt::format("{}; measured peak {}", tier_text(plan),
                     format_bytes(measured_peak(measured, plan.tier)));
}

nlohmann::json traffic_json(const PlannedProgram& training) {
  return by_link([&](Link link) {
    return nlohmann::json{{"planned_bytes", training.moved(link)},
                          {"save_bytes", training.moved_by_save(link)}};
  });
}

std::string traffic_text(const PlannedProgram& training, Link link, std::string_view of) {
  const Bytes by_save = training.moved_by_save(link);
  return fmt::format(
      "{:<10} {} per {}{}", name_of(link), format_bytes(training.moved(link)), of,
      by_save > 0 ? fmt::format(", {} more in a {} that saves", format_bytes(by_save), of) : "");
}

nlohmann::json moved_json(Link link, Bytes planned, const Measurements& measured) {
  nlohmann::json json = {{"planned_bytes", planned}, {"measured_bytes", measured.count.traffic[link]}};
  const Lane lane = lane_of(link);  // between ranks several links share one
  if (lane != Lane::comm) json["busy_seconds"] = measured.busy_seconds[lane];
  return json;
}

std::string moved_text(Link link, Bytes planned, const Measurements& measured) {
  return fmt::format("{} {} planned, {} measured", name_of(link), format_bytes(planned),
                     format_bytes(measured.count.traffic[link]));
}

std::string loss_text(const std::optional<double>& loss) {
  return loss ? fmt::format("{:.4f}", *loss) : "-";
}

nlohmann::json busy_json(const Measurements& measured) {
  nlohmann::json busy = nlohmann::json::object();
  for (const Lane lane : kLanes) busy[std::string(name_of(lane))] = measured.busy_seconds[lane];
  return busy;
}

/// Null if it has none.
template <typename Report>
nlohmann::json loss_json(const Report& report) {
  return report.has_loss ? nlohmann::json(report.loss) : nlohmann::json();
}

nlohmann::json step_json(const StepReport& report) {
  nlohmann::json json = {{"step", report.step + 1},       {"loss", loss_json(report)},
                         {"grad_norm", report.grad_norm}, {"learning_rate", report.learning_rate},
                         {"seconds", report.seconds},     {"skipped", report.skipped}};
  if (report.spiked()) json["spiked"] = true;
  if (report.loss_scale != 1) json["loss_scale"] = report.loss_scale;
  return json;
}

std::string validation_text(const ValidationPoint& point) {
  const std::string loss = fmt::format("step {}: validation loss {}", point.step, loss_text(point));
  return point.lowered_rate ? fmt::format("{}; lr falls to {:.2e}", loss, *point.lowered_rate) : loss;
}

nlohmann::json validation_json(const ValidationPoint& point) {
  return {{"step", point.step}, {"validation_loss", loss_json(point)}};
}

nlohmann::json validation_json(const std::vector<ValidationPoint>& points) {
  nlohmann::json json = nlohmann::json::array();
  for (const ValidationPoint& point : points)
    json.push_back({{"step", point.step}, {"loss", loss_json(point)}});
  return json;
}

nlohmann::json samples_json(const SamplePoint& point) {
  nlohmann::json samples = nlohmann::json::array();
  for (const Sample& sample : point.samples)
    samples.push_back({{"prompt", sample.prompt}, {"text", sample.text}, {"ids", sample.ids}});
  return {{"step", point.step}, {"seconds", point.seconds}, {"samples", std::move(samples)}};
}

nlohmann::json samples_json(const std::vector<SamplePoint>& points) {
  nlohmann::json json = nlohmann::json::array();
  for (const SamplePoint& point : points) json.push_back(samples_json(point));
  return json;
}

}  // namespace strata
