// What a plan needs and does, for `strata plan`: text for a person, JSON for a program.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device/scratch.h"
#include "engine/plan/search/needs.h"

namespace strata {

/// Budgets, peaks by tier and kind, bytes per link, FLOPs, and on `rates`, if given, what each resource
/// needs.
std::string plan_text(const Plan& plan, const Model& model, const MachineRates* rates);
nlohmann::json plan_json(const Plan& plan, const MachineRates* rates);

/// The same in the few lines with which a run begins. The first line needs the whole model, and a rank's part
/// is not enough. The others have memory and a step, which is predicted to take `seconds`.
std::string brief_model_text(const Model& whole);
std::string brief_plan_text(const Plan& plan, double seconds, const MachineRates& rates);

/// What kernels set up besides the plan's memory: a line, and {"planned_bytes", "parts": {…}}.
std::string scratch_text(const std::vector<ScratchPart>& parts);
nlohmann::json scratch_json(const std::vector<ScratchPart>& parts);

/// "0.120 s per step by compute (…)"; `of` is "step", or "round" if a round has steps of several models.
std::string needs_text(const StepNeeds& needs, std::string_view of);
/// {"needs": {"seconds", "by", "compute", …}}.
nlohmann::json needs_json(const StepNeeds& needs);

}  // namespace strata
