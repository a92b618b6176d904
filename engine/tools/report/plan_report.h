// What a plan needs and does, for `strata plan`: text for a person, JSON for a program.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device/scratch.h"
#include "engine/plan/merge/model_to_plan.h"
#include "engine/plan/planner/needs.h"

namespace strata {

/// Budgets, peaks by tier and kind, bytes per link, FLOPs, and on `rates`, if given, what each resource
/// needs. Of several models also a line for each, and the turn sequences. `models` by number.
std::string plan_text(const Plan& plan, std::span<const ModelToPlan> models, const MachineRates* rates);
/// Keys as documented in docs/reference/reports.md.
nlohmann::json plan_json(const Plan& plan, std::span<const ModelToPlan> models, const MachineRates* rates);

/// The same in the few lines with which a run begins. The first line needs the whole model, and a rank's part
/// is not enough. The others have memory and a step, which is predicted to take `seconds`, or a round.
std::string brief_model_text(const Model& whole);
std::string brief_plan_text(const Plan& plan, double seconds, const MachineRates& rates);

/// "longest remaining time first, planned 0.120 s per round (0.110 s of computing, 92 %); compared with step
/// after step 0.200 s": what was chosen, by the rates that planned it. REQUIRES: a plan of several models.
std::string sequence_text(const Plan& plan);
/// {"turn_sequences": [{"name", "seconds", "chosen"}], "round_seconds", "computing_seconds"}.
nlohmann::json sequences_json(const Plan& plan);

/// What kernels set up besides the plan's memory: a line, and {"planned_bytes", "parts": {…}}.
std::string scratch_text(const std::vector<ScratchPart>& parts);
nlohmann::json scratch_json(const std::vector<ScratchPart>& parts);

/// "0.120 s per step by compute (…)"; `of` is "step", or "round" if a round has steps of several models.
std::string needs_text(const StepNeeds& needs, std::string_view of);
/// {"needs": {"seconds", "by", "compute", …}}.
nlohmann::json needs_json(const StepNeeds& needs);

}  // namespace strata
