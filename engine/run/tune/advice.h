// What would make a run faster, or make it fit. Each change is tried by planning the run again with it. Its
// figure is that plan's step time by the same rates. Changes are planned side by side on the arena that the
// caller runs in (base/task_arena.h). Results do not depend on its threads.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_array.h"
#include "engine/config/run_config.h"
#include "engine/plan/bound/certificate.h"
#include "engine/plan/planner/planned_run.h"
#include "engine/run/tune/changes.h"
#include "engine/run/tune/request_of_run.h"

namespace strata {

/// The run that advice is asked for.
struct AdviceInput {
  /// By model, as the run file gives them, with a precision: budgets may be open.
  std::vector<RunConfig> configs;
  std::vector<const Model*> models;
  std::vector<std::string> names;  ///< of models
  bool is_several = false;         ///< the run file has `models` or `sweep`
  /// Sets budgets that are open, for each model.
  std::function<void(std::vector<RunConfig>&)> set_budgets = [](std::vector<RunConfig>&) {};
  Bytes machine_memory = kUnlimited;  ///< that the machine has for the tiers in it
  bool has_bf16 = true;               ///< if not, products are as fast in bf16 as in the run's precision
  OnPlanning on_planning = [](const std::string&) {};
};

/// The models of a run with these configs, which outlive what is returned.
std::vector<ConfiguredModel> configured(const AdviceInput& input, const std::vector<RunConfig>& configs);
/// The run as it is planned with these configs. Throws ConfigError, as models_to_plan() does.
std::vector<ModelToPlan> to_plan(const AdviceInput& input, const std::vector<RunConfig>& configs);
/// Nothing if it cannot be planned.
std::optional<PlannedRun> find_run(const AdviceInput& input, const std::vector<RunConfig>& configs,
                                   const MachineRates& rates);

/// What a run with a change takes.
struct Prediction {
  Change change = {};
  StepEstimate step = {};
  std::int64_t tokens = 0;            ///< in a step
  EnumArray<Tier, Bytes> peaks = {};  ///< of the rank that needs most
  TierBudgets budgets = {kUnlimited, kUnlimited, 0};

  double seconds_per_token() const { return step.seconds / static_cast<double>(tokens); }
};

/// Changes that are shown at most.
constexpr std::size_t kMostAdvised = 3;
/// A change that saves less of a token's time is within the error of rates.
constexpr double kLeastGain = 0.01;

struct Advice {
  std::optional<PlannedRun> run;  ///< nothing: the budgets are too small
  std::string refusal;            ///< then, the sentence that says so
  Prediction now;                 ///< the run as it is, if it fits
  Certificate certificate = {};   ///< if it fits: what no plan of it beats
  /// With memory enough on the device and the host; nothing if that does not make it fit.
  std::optional<Prediction> roomy;
  /// The best first. If the run fits, those that save most time per token, and none that saves less than
  /// kLeastGain of it. If not, those that make it fit, the least change first: what needs no more memory
  /// before what does. One that needs no more memory is among them, if any fits. Of alternatives the smallest
  /// that saves half of what the best does, or that fits.
  std::vector<Prediction> changes;
  std::size_t planned = 0;  ///< changes that were tried
};

/// Throws ConfigError if something else than budgets is wrong with the run.
Advice advise(const AdviceInput& input);

/// The run's configs with a change, their budgets set. Throws ConfigError if it cannot be made.
std::vector<RunConfig> with_change(const AdviceInput& input, const Change& change);

}  // namespace strata
