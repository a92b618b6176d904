// Memory and traffic, planned and measured, in the words that all reports share: those of plans and of runs,
// of one model and of several.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_array.h"
#include "engine/plan/place/plan.h"
#include "engine/run/execute/model_run.h"

namespace strata {

/// What a plan has a tier hold.
struct TierPlan {
  Tier tier = Tier::device;
  Bytes budget = kUnlimited;
  Bytes peak_bytes = 0;
  EnumArray<BufferKind, Bytes> by_kind = {};  ///< at the peak
};
TierPlan tier_plan(const Plan& plan, Tier tier);

/// Those that a run has a budget for, and the links that it uses: between them, and between ranks.
std::vector<Tier> used_tiers(const TierBudgets& budgets);
std::vector<Link> used_links(const PlannedProgram& training, const TierBudgets& budgets);

/// {"device": value(Tier::device), …}
template <typename Value>
nlohmann::json by_tier(const Value& value) {
  nlohmann::json json = nlohmann::json::object();
  for (const Tier tier : kTiers) json[std::string(name_of(tier))] = value(tier);
  return json;
}

/// {"h2d": value(Link::h2d), …}
template <typename Value>
nlohmann::json by_link(const Value& value) {
  nlohmann::json json = nlohmann::json::object();
  for (const Link link : kLinks) json[std::string(name_of(link))] = value(link);
  return json;
}

/// "device 22.79 MiB of 24.00 MiB, host …": what a plan takes of its budgets.
std::string memory_text(const Plan& plan);

/// {"parameter": bytes, …} in the order of BufferKind.
nlohmann::json kinds_json(const EnumArray<BufferKind, Bytes>& by_kind);
/// "parameter 300.00 MiB, gradient …", without those that have none.
std::string kinds_text(const EnumArray<BufferKind, Bytes>& by_kind);

/// {"budget_bytes", "planned_peak_bytes", "by_kind": {…}}; budget null if unlimited.
nlohmann::json tier_json(const TierPlan& plan);
/// And "measured_peak_bytes".
nlohmann::json tier_json(const TierPlan& plan, const Measurements& measured);
/// "device  peak 1.20 GiB of 2.00 GiB: parameter 300.00 MiB, …".
std::string tier_text(const TierPlan& plan);
/// And "; measured peak 1.20 GiB".
std::string tier_text(const TierPlan& plan, const Measurements& measured);

/// By link, {"planned_bytes", "save_bytes"} of a step, or of a round of several models.
nlohmann::json traffic_json(const PlannedProgram& training);
/// "h2d        1.20 GiB per step, 30.00 MiB more in a step that saves"; `of` is "step" or "round".
std::string traffic_text(const PlannedProgram& training, Link link, std::string_view of);
/// {"planned_bytes", "measured_bytes", "busy_seconds"} of a run.
nlohmann::json moved_json(Link link, Bytes planned, const Measurements& measured);
/// "h2d 1.20 GiB planned, 1.20 GiB measured".
std::string moved_text(Link link, Bytes planned, const Measurements& measured);
/// "3.1416"; "-" if there is none.
std::string loss_text(const std::optional<double>& loss);

/// {"compute": seconds, …}
nlohmann::json busy_json(const Measurements& measured);

/// A number of each step, as one of StepReport's members.
template <typename Member>
nlohmann::json list_of(const std::vector<StepReport>& steps, Member member) {
  nlohmann::json values = nlohmann::json::array();
  for (const StepReport& step : steps) values.push_back(step.*member);
  return values;
}
/// "none" if nothing of it is a target.
template <typename Report>
std::string loss_text(const Report& report) {
  return report.has_loss ? fmt::format("{:.4f}", report.loss) : "none";
}
/// "step 300: validation loss 3.1021"
std::string validation_text(const ValidationPoint& point);
/// What report.metrics and TensorBoard show of a step, and of a validation.
nlohmann::json step_json(const StepReport& report);
nlohmann::json validation_json(const ValidationPoint& point);
/// [{"step", "loss"}, …]
nlohmann::json validation_json(const std::vector<ValidationPoint>& points);
/// {"step", "seconds", "samples": [{"prompt", "text", "ids"}, …]}, and a list of such.
nlohmann::json samples_json(const SamplePoint& point);
nlohmann::json samples_json(const std::vector<SamplePoint>& points);

}  // namespace strata
