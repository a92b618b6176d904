// What a training run did: the final summary for a person and the JSON of `--json`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/bound/certificate.h"
#include "engine/plan/cost/step_times.h"
#include "engine/run/execute/trainer.h"

namespace strata {

/// A run and the machine it ran on.
struct TrainReport {
  const Plan& plan;
  const TrainResult& result;
  const MachineRates& rates;                  ///< none is less than what the run did (reached_rates.h)
  Certificate bound = {};                     ///< by these rates
  std::optional<MachineRates> measured = {};  ///< those as the run began
  std::vector<nlohmann::json> ranks = {};     ///< rank_json() of each
  /// The first rank's; nothing if no step was measured. `is_by_profile`: simulated by plan.machine.
  std::optional<StepComparison> comparison = {};
  bool is_by_profile = false;

  /// step_time() of the run (engine/tools/report/step_time.h).
  double median_step_seconds() const;
  double tokens_per_second() const;
  /// Model FLOPs utilisation: model FLOPs per step / (median step time · rate of products). HFU counts
  /// executed FLOPs.
  double mfu() const;
  double hfu() const;
};

/// A rank's own figures, for the report of the first one.
nlohmann::json rank_json(const Plan& plan, const TrainResult& result);
/// Loss, speed, peaks of memory and the hash of the state; if `is_verbose`, also what these were measured by.
std::string summary_text(const TrainReport& report, bool is_verbose = false);
/// Keys as documented in docs/reference/reports.md. Traffic is that of all steps together.
nlohmann::json train_json(const TrainReport& report);

}  // namespace strata
