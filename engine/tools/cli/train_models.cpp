// strata train of a run file that has several models.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <iostream>
#include <limits>
#include <list>
#include <optional>

#include "base/error.h"
#include "collectives/agreement.h"
#include "engine/config/model_names.h"
#include "engine/config/run_config.h"
#include "engine/run/assembly/one_run.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "engine/run/execute/run_record.h"
#include "engine/run/execute/select.h"
#include "engine/tools/cli/next_commands.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/setup.h"
#include "engine/tools/cli/training_run.h"
#include "engine/tools/profile/profile_folder.h"
#include "engine/tools/report/models_report.h"
#include "engine/tools/report/models_table.h"

namespace strata {
namespace {

/// A rung compares what all models have; besides, they validate at the end.
void validate_at_rungs(RunModels& run) {
  if (run.select.rung_steps.empty() || run.select.by != SelectBy::validation) return;
  for (NamedRun& model : run.models) {
    TrainSection& train = model.config.train;
    if (train.validate_every == 0)
      train.validate_every = train.epochs ? std::numeric_limits<std::int64_t>::max() : train.steps;
  }
}

/// Epochs are steps once the data are read. Throws ConfigError.
void require_rungs_before_end(const Selection& select, const NamedRun& model) {
  const TrainSection& train = model.config.train;
  if (!train.epochs || select.rung_steps.empty() || select.rung_steps.back() < train.steps) return;
  throw ConfigError(
      fmt::format("select.rung_steps: {} is not less than the {} steps of model '{}', which are {} "
                  "epochs (train.epochs)",
                  select.rung_steps.back(), train.steps, model.name, *train.epochs));
}

/// Read by the first rank for all.
RunRecord read_record(const RunModels& run, bool fresh, Communicator* world) {
  if (run.checkpoint_path.empty() || fresh) return {};
  const std::string text =
      text_of_first_rank(world, [&] { return to_text(load_run_record(run.checkpoint_path)); });
  return parse_run_record(text, run.checkpoint_path);
}

/// Whether there is nothing to train: it has all steps that the run file asks for now, or was ended.
bool is_over(const RunRecord& record, const NamedRun& model) {
  const auto found = record.models.find(model.name);
  if (found == record.models.end()) return false;
  return !found->second.ended.empty() || found->second.steps == model.config.train.steps;
}

class SeveralModelsRun : public TrainingRun {
 public:
  using TrainingRun::TrainingRun;

 private:
  using Clock = std::chrono::steady_clock;

  struct RungLosses : TrainListener {
    RungLosses(SeveralModelsRun& training, std::size_t trained) : training_(training), trained_(trained) {}
    void on_step(const StepReport& report) override { training_.note_loss(trained_, report); }

    SeveralModelsRun& training_;
    std::size_t trained_;
  };

  void adjust(RunModels& run) override { validate_at_rungs(run); }

  void read_record() override {
    lock_folder();
    record_ = strata::read_record(run_, command_.fresh, job_.world());
    if (!run_.checkpoint_path.empty()) record_.run_file = seen_from(run_.checkpoint_path, command_.run_file);
  }

  void check_prepared() override {
    for (std::size_t m = 0; m < run_.models.size(); ++m) {
      run_.models[m].config.train.steps = prepared_.models[m].config.train.steps;
      require_rungs_before_end(run_.select, run_.models[m]);
    }
  }

  bool is_over(std::size_t model) const override { return strata::is_over(record_, run_.models[model]); }

  /// The record is of one run at a time; a lock of each model's own folder keeps others from that.
  void lock_folder() {
    if (run_.checkpoint_path.empty()) return;
    on_first_rank(job_.world(), [&] {
      std::vector<std::string> warnings;
      lock_ = lock_checkpoints(run_.checkpoint_path, ".strata-run-lock", FileSystem::real(), warnings);
      for (const std::string& warning : warnings) std::cerr << "warning: " << warning << '\n';
    });
  }

  const Plan* replan(const SeveralModels::Steps& remaining) {
    std::optional<std::vector<Plan>> plans = planner_->find(remaining);
    if (!plans) return nullptr;
    plans_.push_back(std::move(*plans));
    require_one_plan(plans_.back(), job_.world());
    return &current_plan();
  }

  void store_record() {
    if (run_.checkpoint_path.empty()) return;
    on_first_rank(job_.world(), [&] { store_run_record(record_, run_.checkpoint_path); });
  }

  void note_end(std::size_t trained, const TrainResult& result) {
    if (result.has_failed && !is_outdone(name_of_model(trained))) failed_.push_back(name_of_model(trained));
    const bool is_unfinished = result.has_failed || (result.ended.empty() && result.interrupted);
    if (!is_unfinished) {
      record_.models[name_of_model(trained)] =
          recorded(result, prepared_.models[trained_[trained]].config.train.steps);
      store_record();
    }
    if (!result.ended.empty() && table_) table_->end(trained, result.ended);
  }

  void set_aside_record() {
    if (run_.checkpoint_path.empty()) return;
    on_first_rank(job_.world(), [&] { set_aside_run_record(run_.checkpoint_path); });
    store_record();
  }

  /// What is decided is stored before it acts.
  std::vector<std::string> choose(std::int64_t step, const std::vector<const TrainResult*>& results) {
    std::vector<std::string> endings(results.size());
    if (const auto known = record_.rungs.find(step); known != record_.rungs.end()) {
      for (const auto& [name, why] : known->second) {
        for (std::size_t m = 0; m < endings.size(); ++m)
          if (results[m] != nullptr && name_of_model(m) == name) endings[m] = why;
      }
      return endings;
    }
    std::vector<std::optional<double>> losses(results.size());
    for (std::size_t m = 0; m < results.size(); ++m) {
      if (results[m] != nullptr) losses[m] = loss_at_rung(step, m, *results[m]);
    }
    endings = outdone(run_.select, step, losses, failed_.size());
    say_failed(step);
    failed_.clear();  // at the next rung it is one that ended at this
    auto& ended = record_.rungs[step];
    for (std::size_t m = 0; m < endings.size(); ++m) {
      if (!endings[m].empty()) ended[name_of_model(m)] = endings[m];
    }
    store_record();
    return endings;
  }

  bool is_outdone(const std::string& name) const {
    return std::ranges::any_of(record_.rungs, [&](const auto& rung) { return rung.second.contains(name); });
  }

  void say_failed(std::int64_t step) const {
    if (!job_.is_first()) return;
    for (const std::string& name : failed_) {
      tell(fmt::format(
          "warning: step {}: {} could not be saved, so it counts as the last of the models that are "
          "compared; it continues when the run is started again\n",
          step, name));
    }
  }

  /// None if it has none, or if the record of when the model was there was taken away: it goes on.
  std::optional<double> loss_at_rung(std::int64_t step, std::size_t trained,
                                     const TrainResult& result) const {
    if (run_.select.by == SelectBy::validation) {
      const ValidationPoint& latest = result.validation.back();
      return latest.has_loss ? std::optional(latest.loss) : std::nullopt;
    }
    const auto losses = record_.losses.find(step);
    if (losses == record_.losses.end()) return std::nullopt;
    const auto found = losses->second.find(name_of_model(trained));
    return found == losses->second.end() ? std::nullopt : std::optional(found->second);
  }

  /// A model that goes on from a checkpoint at the rung does not compute its loss again. It is that of one
  /// step, since a run that goes on does not know those before its checkpoint.
  void note_loss(std::size_t trained, const StepReport& report) {
    const std::int64_t step = report.step + 1;
    if (run_.select.by != SelectBy::training || !std::ranges::count(run_.select.rung_steps, step)) return;
    if (!report.has_loss) return;
    record_.losses[step][name_of_model(trained)] = report.loss;
    if (job_.is_first() && !run_.checkpoint_path.empty()) store_run_record(record_, run_.checkpoint_path);
  }

  std::optional<SeveralModels> several() override {
    return SeveralModels{
        .replan = [this](const SeveralModels::Steps& remaining) { return replan(remaining); },
        .on_begin =
            [this] {
              record_.best.clear();
              if (command_.fresh) set_aside_record();
            },
        .on_end = [this](std::size_t m, const TrainResult& result) { note_end(m, result); },
        .rung_steps = run_.select.rung_steps,
        .choose = [this](std::int64_t step, const auto& results) { return choose(step, results); }};
  }

  void begin_progress(const Trainer& trainer) override {
    const Plan& plan = current_plan();
    std::string memory;
    for (const Tier tier : kTiers) {
      if (plan.arena_bytes(tier) > 0)
        memory += fmt::format("{}{} {}", memory.empty() ? "" : "  ", name_of(tier),
                              format_bytes(plan.arena_bytes(tier)));
    }
    std::vector<ModelLabel> labels;
    for (const ModelToPlan& model : planner_->models())
      labels.push_back({model.name, model.steps, model.request.strategy.tokens()});
    table_.emplace(std::move(labels), memory, isatty(STDERR_FILENO) != 0, ModelsTable::Surroundings::real(),
                   panel_plan(plan, [&trainer] { return trainer.live(); }));
    start_ = Clock::now();
  }

  TrainListener& progress_of(std::size_t trained) override { return table_->of(trained); }

  TrainListener* listener_of(std::size_t trained) override {
    return &rung_losses_.emplace_back(*this, trained);
  }

  void end_progress() override {
    seconds_ = std::chrono::duration<double>(Clock::now() - start_).count();
    table_->finish();
  }

  int report(std::vector<TrainResult> results, const Trainer* trainer) override {
    std::vector<ModelOutcome> outcomes;
    std::size_t next = 0;
    bool is_stopped = false, failed = false, has_trained = false;
    for (std::size_t m = 0; m < run_.models.size(); ++m) {
      const NamedRun& model = run_.models[m];
      const bool was_trained = next < trained_.size() && trained_[next] == m;
      ModelOutcome& outcome = outcomes.emplace_back(
          ModelOutcome{model.name, model.overrides, &prepared_.models[m].config, nullptr, {}, {}});
      if (was_trained) {
        outcome.plan = &*of_this_rank(plans_.front()).models[next];
        outcome.result = std::move(results[next++]);
      } else {
        outcome.result = result_of(record_.models.at(model.name));
      }
      outcome.ended = outcome.result.ended;
      is_stopped |= outcome.result.interrupted && outcome.ended.empty();
      failed |= outcome.result.has_failed;
      has_trained |= outcome.ended.empty() && !outcome.result.interrupted;
    }
    const int status = is_stopped || failed || !has_trained ? 1 : 0;
    if (!job_.is_first()) return status;
    if (recorded_.is_there()) raise_rates(recorded_.get().seconds);
    write_profile_of_step();
    const ModelsReport report{.plan = plans_.empty() ? nullptr : &of_this_rank(plans_.front()),
                              .models = outcomes,
                              .measured = trainer == nullptr ? Measurements() : trainer->measured(),
                              .planned = trainer == nullptr ? Traffic() : trainer->planned(),
                              .rates = rates_,
                              .seconds = seconds_,
                              .by_validation = run_.select.by == SelectBy::validation};
    print_summary(leaderboard_text(report, command_.verbose));
    nlohmann::json json = models_json(report);
    for (std::size_t m = 0; m < prepared_.models.size(); ++m)
      json["models"][m]["data"] = data_json(prepared_.models[m].facts);
    write_report(std::move(json));
    if (!command_.profile.empty() && !recorded_.is_there() && !is_stopped) say_nothing_to_profile(command_);
    if (command_.profiled_steps == 0) say_where_models_are();
    if (command_.profiled_steps == 0 && !is_stopped) {
      note_best(report);
      say_how_to_use_the_best(report);
    }
    if (is_stopped)
      std::cerr << fmt::format("stopped; {} with: {}",
                               run_.checkpoint_path.empty() ? "start again" : "all was saved; resume",
                               same_command(command_, job_))
                << '\n';
    if (!is_stopped && !has_trained) std::cerr << "strata: every model has ended before its last step\n";
    return status;
  }

  void say_where_models_are() const {
    const std::string& folder = run_.checkpoint_path;
    std::cerr << (folder.empty()
                      ? "nothing was saved: checkpoint.path is none"
                      : fmt::format("the models are in {}, each in the folder of its name", folder))
              << '\n';
    for (const NamedRun& model : run_.models) {
      const std::string& own = model.config.checkpoint.path;
      if (own == folder_of_model(folder, model.name)) continue;
      std::cerr << (own.empty() ? fmt::format("{} was not saved: its checkpoint.path is none", model.name)
                                : fmt::format("{} is in {}", model.name, own))
                << '\n';
    }
  }

  /// Other commands offer this model. Of the first rank.
  void note_best(const ModelsReport& report) {
    const std::vector<std::size_t> ranking = report.ranking();
    const std::string best = ranking.empty() ? "" : run_.models[ranking.front()].name;
    if (run_.checkpoint_path.empty() || best == record_.best) return;
    record_.best = best;
    store_run_record(record_, run_.checkpoint_path);
  }

  void say_how_to_use_the_best(const ModelsReport& report) const {
    const std::vector<std::size_t> ranking = report.ranking();
    if (ranking.empty()) return;
    const PreparedModel& best = prepared_.models[ranking.front()];
    const std::string& own = best.config.checkpoint.path;
    if (own.empty()) return;
    std::cerr << fmt::format(
        "the best is {}\n{}", run_.models[ranking.front()].name,
        commands_of_model(best, (run_.checkpoint_path.empty() ? own : run_.checkpoint_path) + "-best"));
  }

  std::unique_ptr<FolderLock> lock_;  ///< of the run's folder, if it has one; rank 0 has it
  RunRecord record_;
  std::vector<std::string> failed_;  ///< since the last rung: models that could not be saved
  std::list<RungLosses> rung_losses_;
  std::optional<ModelsTable> table_;
  Clock::time_point start_ = {};
  double seconds_ = 0;
};

}  // namespace

std::unique_ptr<TrainingRun> several_models_run(const TrainCommand& command, RunModels run, Job& job) {
  return std::make_unique<SeveralModelsRun>(command, std::move(run), job);
}

}  // namespace strata
