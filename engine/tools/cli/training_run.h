// A run of strata train, from its run file to its report, whatever models it has. What a user sees of it, and
// what is kept of models that end, differs between one model and several: these derive from TrainingRun.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/run_models.h"
#include "engine/plan/planner/planner.h"
#include "engine/run/assembly/layout.h"
#include "engine/run/assembly/precision.h"
#include "engine/run/assembly/prepared_run.h"
#include "engine/run/execute/step_recorder.h"
#include "engine/run/execute/trainer.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/job.h"
#include "engine/tools/cli/opening.h"
#include "engine/tools/cli/training.h"
#include "engine/tools/report/progress.h"

namespace strata {

struct RunConfig;

class TrainingRun {
 public:
  TrainingRun(const TrainCommand& command, RunModels run, Job& job);
  virtual ~TrainingRun() = default;
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Returns the exit status. Every rank calls it.
  int train();

 protected:
  // In the order in which they are called, each on every rank unless it says otherwise.

  virtual void adjust(RunModels& /*run*/) {}
  /// Reads what is known of models that were trained before.
  virtual void read_record() {}
  /// Throws ConfigError if what the data have come to does not go with the run file.
  virtual void check_prepared() {}
  /// Whether there is nothing to train of a model.
  virtual bool is_over(std::size_t /*model*/) const { return false; }
  virtual std::vector<RoundListener*> recording() { return {}; }
  virtual std::optional<SeveralModels> several() { return std::nullopt; }
  /// Begins to show how the run goes on. Only the first rank calls it.
  virtual void begin_progress(const Trainer& trainer) = 0;
  /// Returns what shows how a trained model goes on. Only the first rank calls it.
  virtual TrainListener& progress_of(std::size_t trained) = 0;
  /// Returns what else hears of a trained model, or null.
  virtual TrainListener* listener_of(std::size_t /*trained*/) { return nullptr; }
  /// Ends what begin_progress() began, also if the run fails. Only the first rank calls it.
  virtual void end_progress() = 0;
  /// Returns the exit status. `trainer` is null if there was nothing to train.
  virtual int report(std::vector<TrainResult> results, const Trainer* trainer) = 0;

  const RunConfig& first() const { return prepared_.models.front().config; }
  const PreparedModel& prepared(std::size_t trained) const { return prepared_.models[trained_[trained]]; }
  const std::string& name_of_model(std::size_t trained) const { return run_.models[trained_[trained]].name; }
  std::vector<std::string> names_of_trained() const;
  const Plan& of_this_rank(const std::vector<Plan>& plans) const {
    return planner_->of_rank(plans, job_.rank());
  }
  /// What the last plan has for this rank.
  const Plan& current_plan() const { return of_this_rank(plans_.back()); }
  /// Raises the rates to what a step of the first plans did that took so long.
  void raise_rates(double seconds);
  /// Writes the profile that the command asks for, if a step was recorded.
  void write_profile_of_step() const;
  void print_summary(const std::string& text) const;
  /// Adds what all reports have.
  void write_report(nlohmann::json json) const;

  const TrainCommand& command_;
  RunModels run_;
  Job& job_;
  std::vector<AgreedPrecision> precisions_;  ///< by model
  PreparedRun prepared_;
  std::vector<std::size_t> trained_;  ///< numbers of the models that are trained in this process
  std::optional<Planner> planner_;
  std::deque<std::vector<Plan>> plans_;  ///< one after another
  MachineRates measured_;                ///< as the run began
  MachineRates rates_;                   ///< none is less than what the run did, at its end
  std::optional<ProductRate> product_rate_;
  StepTimes predicted_;  ///< of the first rank's step
  EarlyStep recorded_;   ///< of the first plan, if a profile is asked for

 private:
  void agree();
  void prepare();
  void say_models();
  void plan();
  void measure();
  std::vector<TrainResult> run(Trainer& trainer);
  void say_plan(const Trainer& trainer);
  std::string before_line_of(std::size_t model) const;

  Opening opening_;
  HangAdvice advice_;
  AgreedLayout layout_;
};

std::unique_ptr<TrainingRun> several_models_run(const TrainCommand& command, RunModels run, Job& job);

}  // namespace strata
