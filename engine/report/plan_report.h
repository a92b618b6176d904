// What a plan needs and does, for `strata plan`: text for a person, JSON for a program.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/device/scratch.h"
#include "engine/plan/search/bound.h"

namespace strata {

/// Budgets, peaks by tier and kind, bytes per link, FLOPs, and the bound on `rates` if given.
std::string plan_text(const Plan& plan, const Model& model, const MachineRates* rates);
nlohmann::json plan_json(const Plan& plan, const MachineRates* rates);

/// What kernels set up besides the plan's memory: a line, and {"planned_bytes", "parts": {…}}.
std::string scratch_text(const std::vector<ScratchPart>& parts);
nlohmann::json scratch_json(const std::vector<ScratchPart>& parts);

/// Those that the run has a budget for, and the links that it uses: between them, and between ranks.
std::vector<Tier> used_tiers(const Plan& plan);
std::vector<Link> used_links(const Plan& plan);

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

/// {"budget_bytes", "planned_peak_bytes", "by_kind": {…}} of one tier; budget null if unlimited.
nlohmann::json tier_json(const Plan& plan, Tier tier);
/// "device  peak 1.20 GiB of 2.00 GiB: parameter 300.00 MiB, …".
std::string tier_text(const Plan& plan, Tier tier);

}  // namespace strata
