#include "engine/tools/cli/training_run.h"

#include <fmt/format.h>

#include <iostream>
#include <list>
#include <utility>

#include "base/topology.h"
#include "collectives/agreement.h"
#include "engine/config/run_config.h"
#include "engine/plan/planner/reached_rates.h"
#include "engine/run/assembly/device.h"
#include "engine/run/assembly/load_model.h"
#include "engine/run/assembly/one_run.h"
#include "engine/run/tune/request_of_run.h"
#include "engine/tools/cli/planning.h"
#include "engine/tools/cli/profiling.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/setup.h"
#include "engine/tools/report/plan_report.h"
#include "engine/tools/report/policy_report.h"
#include "engine/tools/report/tensorboard.h"
#include "engine/tools/report/wrapped.h"

namespace strata {

TrainingRun::TrainingRun(const TrainCommand& command, RunModels run, Job& job)
    : command_(command), run_(std::move(run)), job_(job), opening_(command.verbose), advice_(job, command) {}

int TrainingRun::train() {
  job_.set_watchdog(static_cast<double>(run_.models.front().config.train.watchdog));
  adjust(run_);
  agree();
  if (command_.dump_config) {
    if (job_.is_first()) std::cout << dump(run_);
    return 0;
  }
  bind_to_share(job_.local_rank(), job_.local_size());
  read_record();
  check_reports(command_, job_);
  prepare();
  if (trained_.empty()) return report({}, nullptr);
  if (job_.is_first()) say_models();
  plan();
  measure();
  std::vector<Trainer::ModelSetup> models;
  std::vector<std::shared_ptr<const Companions>> companions;
  for (std::size_t m = 0; m < trained_.size(); ++m) {
    models.push_back({prepared(m).config, prepared(m).model, data_of(prepared(m))});
    companions.push_back(prepared(m).companions);
  }
  std::vector<RoundListener*> listeners = recording();
  if (!command_.profile.empty()) listeners.push_back(&recorded_);
  const std::unique_ptr<StepTrace> trace =
      open_trace(first(), job_, run_.is_several ? names_of_trained() : std::vector<std::string>());
  if (trace) listeners.push_back(&*trace);
  Trainer trainer(std::move(models), of_this_rank(plans_.front()), *prepared_.machine.device,
                  {.fresh = command_.fresh,
                   .run_file = command_.run_file,
                   .layout = layout_.settings,
                   .watchdog_seconds = static_cast<double>(first().train.watchdog),
                   .companions = std::move(companions),
                   .world = job_.world(),
                   .make_device_group = job_.size() > 1 ? device_groups(first()) : MakeDeviceGroup(),
                   .on_failure = [this](const std::exception& error) { job_.tell(error); },
                   .recording = std::move(listeners),
                   .several = several()});
  trainer.measure_nvme(measured_);
  std::vector<TrainResult> results = run(trainer);
  return report(std::move(results), &trainer);
}

void TrainingRun::agree() {
  for (NamedRun& model : run_.models) {
    precisions_.push_back(
        agree_on_precision(model.config, command_.fresh, without_bf16(job_.world()), job_.world()));
  }
  if (!run_.is_several)
    layout_ = choose_layout(run_.models.front().config, command_.fresh, job_.size(), job_.world());
}

/// A model that is not trained any more must be the one that was, so all are prepared.
void TrainingRun::prepare() {
  std::vector<RunConfig> agreed;
  for (const NamedRun& model : run_.models) agreed.push_back(model.config);
  prepared_ = prepare_run(agreed, command_.fresh, job_.run_rank(), notes_on_terminal());
  check_prepared();
  for (std::size_t m = 0; m < run_.models.size(); ++m) {
    if (!is_over(m)) trained_.push_back(m);
  }
}

std::string TrainingRun::before_line_of(std::size_t model) const {
  return run_.is_several ? run_.models[model].name + ": " : "";
}

void TrainingRun::say_models() {
  std::vector<std::string> names;
  for (const NamedRun& model : run_.models) names.push_back(model.name);
  if (!run_.is_several) {
    // A rank of several that share layers has a part of the model.
    const bool has_part = first().parallel.tensor > 1;
    opening_.say(brief_model_text(has_part ? model_of_run(load_architecture(first()), first())
                                           : prepared_.models.front().model));
  }
  say_what_was_read(prepared_.models, names, opening_);
  say_where_memory_goes(first(), prepared_.machine.host, opening_);
  for (std::size_t m = 0; m < run_.models.size(); ++m) {
    const AgreedPrecision& precision = precisions_[m];
    if (!precision.line.empty()) opening_.add(before_line_of(m) + precision.line, !precision.is_chosen);
  }
  opening_.say(layout_.line);
}

void TrainingRun::plan() {
  std::vector<ConfiguredModel> models;
  for (std::size_t m = 0; m < trained_.size(); ++m)
    models.push_back({name_of_model(m), &prepared(m).config, &prepared(m).model});
  on_every_rank(job_.world(), [&] {
    planner_.emplace(models_to_plan(models), run_.is_several, prepared_.rates);
    plans_.push_back(
        or_explain(command_, [&] { return plans_in(precisions_[trained_.front()], *planner_); }));
  });
  require_one_plan(plans_.back(), job_.world());
}

void TrainingRun::measure() {
  std::vector<ProductsOf> products;
  for (std::size_t m = 0; m < trained_.size(); ++m) {
    const RunConfig& config = prepared(m).config;
    products.push_back({prepared(m).model, config.precision(), microbatch_of_rank(config)});
  }
  measured_ = measure_machine(*prepared_.machine.device, *first().train.precision, link_limit(first()),
                              host_threads(first()), products, job_.world());
}

std::vector<TrainResult> TrainingRun::run(Trainer& trainer) {
  product_rate_.emplace(measured_.flops_per_second);
  if (job_.is_first()) {
    say_plan(trainer);
    begin_progress(trainer);
  }
  // Progress looks at the trainer, so it ends before that, however the run ends.
  struct Ending {
    TrainingRun& run;
    ~Ending() {
      if (run.job_.is_first()) run.end_progress();
    }
  } ending{*this};
  std::list<Listeners> listeners;
  std::list<MetricsLog> logs;
  std::list<TensorBoardLog> curves;
  std::optional<MetricsLog> log_of_run;
  if (job_.is_first() && run_.is_several && !run_.metrics.empty()) log_of_run.emplace(run_.metrics);
  const auto listen = [&](std::size_t trained, Listeners& own) {
    own.add(advice_);
    if (TrainListener* more = listener_of(trained)) own.add(*more);
    if (!job_.is_first()) return;
    own.add(progress_of(trained));
    const auto add_log = [&](MetricsLog log) {
      log.say_first("data", data_json(prepared(trained).facts));
      own.add(logs.emplace_back(std::move(log)));
    };
    const ReportSection& reports = prepared(trained).config.report;
    if (!reports.metrics.empty()) add_log(MetricsLog(reports.metrics));
    if (!reports.tensorboard.empty()) {
      own.add(curves.emplace_back(reports.tensorboard, *product_rate_,
                                  [this, trained] { return step_costs(current_plan(), trained); }));
    }
    if (log_of_run) add_log(log_of_run->of_model(name_of_model(trained)));
  };
  std::vector<TrainListener*> of_models;
  for (std::size_t m = 0; m < trained_.size(); ++m) {
    listen(m, listeners.emplace_back());
    of_models.push_back(&listeners.back());
  }
  const LaneStatus::Watch watch(job_.status(), [&trainer] { return trainer.describe_lanes(); });
  std::vector<TrainResult> results = trainer.train(stop_on_signals(), of_models);
  rates_ = measured_;
  rates_.flops_per_second = product_rate_->now();
  return results;
}

void TrainingRun::say_plan(const Trainer& trainer) {
  const Plan& plan = current_plan();
  const bool is_by_profile = !first().plan.machine.empty();
  if (!plan.merged) predicted_ = simulated_times(plans_.front(), is_by_profile ? prepared_.rates : measured_);
  opening_.say(brief_plan_text(plan, predicted_.step, measured_));
  CheckpointSection saves = first().checkpoint;
  if (run_.is_several) saves.path = run_.checkpoint_path;
  if (command_.profiled_steps == 0) opening_.say(saves_text(saves));
  opening_.detail(plan_text(plan, planner_->models(), &measured_));
  if (!run_.is_several && first().optimizer.has_several_policies())
    opening_.detail(policies_text(prepared_.models.front().model));
  opening_.detail("scratch  " + scratch_text(prepared_.machine.scratch));
  say_machine(trainer, opening_);
  for (std::size_t m = 0; m < run_.models.size(); ++m) {
    for (const std::string& warning : prepared_.models[m].warnings)
      std::cerr << "warning: " << before_line_of(m) << warning << '\n';
  }
}

std::vector<std::string> TrainingRun::names_of_trained() const {
  std::vector<std::string> names;
  for (std::size_t m = 0; m < trained_.size(); ++m) names.push_back(name_of_model(m));
  return names;
}

void TrainingRun::raise_rates(double seconds) {
  rates_ = reached_rates(std::move(rates_), plans_.front(), planner_->models(), seconds);
}

void TrainingRun::write_profile_of_step() const {
  if (!recorded_.is_there()) return;
  const std::vector<StepProfile> planned = profiles_of(*planner_, plans_.front(), rates_);
  write_profile(command_.profile, command_.run_file, planned,
                {measured_beside(planned.front(), of_this_rank(plans_.front()).training(), recorded_.get())});
}

void TrainingRun::print_summary(const std::string& text) const {
  if (command_.json == "-") {
    std::cerr << text;
  } else {
    std::cout << for_output(text);
  }
}

void TrainingRun::write_report(nlohmann::json json) const {
  json["opening"] = opening_.lines();
  write_json(command_.json, json);
}

}  // namespace strata
