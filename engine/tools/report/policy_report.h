// Which tensors are updated by which policy, for a run file that has optimizer.groups.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace strata {

struct Model;

/// A line for each policy that updates a tensor. Names that differ in numbers only stand there once.
std::string policies_text(const Model& model);
/// [{"rule", "lr_factor", "schedule_of_group", "weight_decay", "parameters", "tensors": [names]}]. Groups are
/// counted from 1; null: the run's schedule.
nlohmann::json policies_json(const Model& model);

}  // namespace strata
