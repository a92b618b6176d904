#include <atomic>
#include <optional>
#include <utility>

#include "base/enum_array.h"
#include "base/watchdog.h"
#include "engine/api/errors.h"
#include "engine/api/strata/strata.h"
#include "engine/config/run_config.h"
#include "engine/config/run_models.h"
#include "engine/plan/planner/planned_run.h"
#include "engine/run/assembly/default_folder.h"
#include "engine/run/assembly/layout.h"
#include "engine/run/assembly/precision.h"
#include "engine/run/assembly/prepared_run.h"
#include "engine/run/assembly/run_to_plan.h"
#include "engine/run/execute/trainer.h"
#include "engine/run/tune/planning_rates.h"

namespace strata {

struct Run::State {
  std::string run_file;
  RunModels run;
};

namespace {

MemoryPeaks peaks_of(const EnumArray<Tier, Bytes>& bytes) {
  return {.device = bytes[Tier::device], .host = bytes[Tier::host], .drives = bytes[Tier::nvme]};
}

class StepListener : public TrainListener {
 public:
  explicit StepListener(const TrainOptions& options) : options_(options) {}

  const std::atomic<bool>& stop() const { return stop_; }
  void on_step(const StepReport& step) override {
    if (!options_.on_step({.number = step.step + 1, .loss = step.loss, .seconds = step.seconds}))
      stop_ = true;
  }
  void on_warning(const std::string& sentence) override { options_.on_warning(sentence); }

 private:
  const TrainOptions& options_;
  std::atomic<bool> stop_ = false;
};

}  // namespace

Run::Run(const std::string& run_file, const std::vector<std::string>& settings)
    : state_(with_standard_errors([&] {
        auto state = std::make_unique<State>(State{run_file, load_run_models(run_file, settings)});
        if (state->run.is_several)
          throw ConfigError(run_file +
                            ": it has several models, which strata train trains together; name one");
        return state;
      })) {}

Run::~Run() = default;
Run::Run(Run&&) noexcept = default;
Run& Run::operator=(Run&&) noexcept = default;

RunPlan Run::plan() const {
  return with_standard_errors([&]() -> RunPlan {
    RunToPlan loaded = load_to_plan(state_->run, 1, [](const std::string&) {});
    loaded.set_open_budgets();
    const RunConfig& config = loaded.run.models.front().config;
    const PlannedRun planned = plan_run(models_to_plan(loaded.configured()), false, planning_rates(config));
    return {.memory = peaks_of(planned.peaks()),
            .step_seconds = planned.step.seconds,
            .tokens_of_step = planned.tokens};
  });
}

TrainedRun Run::train(const TrainOptions& options) const {
  return with_standard_errors([&]() -> TrainedRun {
    RunConfig agreed = state_->run.models.front().config;
    const Watchdog watchdog(static_cast<double>(agreed.train.watchdog), options.on_hang);
    if (!options.fresh)
      refuse_other_run(state_->run_file, state_->run, "set another checkpoint.path, or begin anew (fresh)");
    const AgreedPrecision precision =
        agree_on_precision(agreed, options.fresh, without_bf16(nullptr), nullptr);
    const AgreedLayout layout = agree_on_layout(agreed, options.fresh, 1, nullptr, [](const std::string&) {});
    const PreparedRun prepared = prepare_run({agreed}, options.fresh, {}, {.on_warning = options.on_warning});
    const PreparedModel& model = prepared.models.front();
    for (const std::string& warning : model.warnings) options.on_warning(warning);
    Planner planner({model_to_plan({"", &model.config, &model.model})}, false, prepared.rates);
    const std::vector<Plan> plans = plans_in(precision, planner);
    Trainer trainer({{model.config, model.model, data_of(model)}}, plans.front(), *prepared.machine.device,
                    {.fresh = options.fresh,
                     .run_file = state_->run_file,
                     .layout = layout.settings,
                     .watchdog_seconds = static_cast<double>(model.config.train.watchdog),
                     .companions = {model.companions}});
    StepListener listener(options);
    const TrainResult result = trainer.train(listener.stop(), listener);
    return {.steps = result.counters.step,
            .is_complete = !result.interrupted && result.ended.empty(),
            .checkpoint = result.checkpoint,
            .state_hash = result.state_hash,
            .memory = peaks_of(result.measured.count.peak_bytes)};
  });
}

}  // namespace strata
