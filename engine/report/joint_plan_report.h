// What the plan of several models needs and does: text for a person, JSON for a program.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/plan/search/joint.h"
#include "engine/report/model_label.h"

namespace strata {

/// A line for each model, then budgets and peaks of all of them, bytes per link, the turn sequences, and on
/// `rates`, if given, what each resource needs. `labels` by model.
std::string joint_plan_text(const JointPlan& plan, const std::vector<ModelLabel>& labels,
                            const MachineRates* rates);
/// The same in the few lines with which a run begins.
std::string brief_joint_plan_text(const JointPlan& plan);
/// Keys as documented in docs/reference/reports.md.
nlohmann::json joint_plan_json(const JointPlan& plan, const std::vector<ModelLabel>& labels,
                               const MachineRates* rates);

/// "longest remaining time first, planned 0.120 s per round (0.110 s of computing, 92 %); compared with step
/// after step 0.200 s": what was chosen, by the rates that planned it.
std::string sequence_text(const JointPlan& plan);
/// {"turn_sequences": [{"name", "seconds", "chosen"}], "round_seconds", "computing_seconds"}.
nlohmann::json sequences_json(const JointPlan& plan);

}  // namespace strata
