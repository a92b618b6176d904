// What a run of several models did: the leaderboard for a person and the JSON of `--json`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/execute/model_run.h"
#include "engine/tools/report/plan_report.h"

namespace strata {

struct RunConfig;

/// What one model left.
struct ModelOutcome {
  std::string name;
  std::vector<std::pair<std::string, std::string>> overrides;  ///< keys of the run file, and its values
  const RunConfig* config = nullptr;
  const ModelPlan* plan = nullptr;  ///< null: it took no part in this process
  TrainResult result;               ///< its measurements are of all models together
  std::string ended = {};           ///< why before its last step; empty: trained, or interrupted
};

/// A run and the machine it ran on.
struct ModelsReport {
  const Plan* plan = nullptr;               ///< null: nothing was left to train, so no figures are the run's
  const std::vector<ModelOutcome>& models;  ///< in the run file's order
  const Measurements& measured;             ///< of all models together
  const Traffic& planned;                   ///< of all models together, by all plans that the run had
  const MachineRates& rates;
  double seconds = 0;         ///< by the clock, of training
  bool by_validation = true;  ///< whether models are compared by it, if each has one

  /// By the latest validation loss, unless one of the models that took steps and was not ended has none;
  /// else by recent_loss(). The best first; without those that were ended, learned nothing or have no such
  /// loss.
  std::vector<std::size_t> ranking() const;
  bool ranks_by_validation() const;

  double tokens_per_second() const;
  /// The share of the time in which the compute lane did nothing.
  double idle_share() const;
};

/// A table of all models, the best first, and what the run was like; if `is_verbose`, also its turns. Models
/// without a rank stand below those with one: those that came further first, then by loss.
std::string leaderboard_text(const ModelsReport& report, bool is_verbose = false);
/// Keys as documented in docs/reference/reports.md.
nlohmann::json models_json(const ModelsReport& report);

}  // namespace strata
