// The planner: requests and models in, complete plans out. From the budgets alone it chooses what a request
// leaves open: order, which units' state lives on the device, what stays resident, and what goes to the nvme
// tier. Nothing here needs a device or memory of the model's size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/cost/rates.h"
#include "engine/plan/merge/joint.h"
#include "engine/plan/merge/model_to_plan.h"
#include "engine/plan/place/plan.h"

namespace strata {

/// Plans are functions of requests, models and rates alone: ranks that give the same get the same.
class Planner {
 public:
  /// The models of an `is_several` run are merged, if only one. Throws ConfigError if their meshes do not go
  /// together. REQUIRES: one model at least, and one alone if it is not `is_several`.
  Planner(std::vector<ModelToPlan> models, bool is_several, const MachineRates& rates);

  /// A plan for each set of ranks that do the same, by their first ranks: for each stage of the pipeline, or
  /// of several models for each stage set. JointPlanner::plan() says what the arguments mean. Throws
  /// BudgetError if the budgets cannot hold the run, naming what does not fit and the smallest budget that
  /// would.
  std::vector<Plan> plan(const std::vector<std::int64_t>& remaining_steps, const std::string& order = {});
  /// All steps of each model.
  std::vector<Plan> plan();
  /// Nothing if no plan is found. It takes less time than to find the budget that would do.
  std::optional<std::vector<Plan>> find(const std::vector<std::int64_t>& remaining_steps,
                                        const std::string& order = {});
  std::optional<std::vector<Plan>> find();

  const std::vector<ModelToPlan>& models() const { return models_; }
  const MachineRates& rates() const { return rates_; }
  bool is_several() const { return joint_.has_value(); }
  /// Returns the one of these plans that a rank runs.
  const Plan& of_rank(const std::vector<Plan>& plans, std::int64_t rank) const;

 private:
  std::vector<std::int64_t> all_steps() const;

  std::vector<ModelToPlan> models_;
  MachineRates rates_;
  std::optional<JointPlanner> joint_;  ///< of several models
};

}  // namespace strata
