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
#include "base/topology.h"
#include "collectives/agreement.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/cli/next_commands.h"
#include "engine/cli/profiling.h"
#include "engine/cli/say.h"
#include "engine/cli/setup.h"
#include "engine/cli/training.h"
#include "engine/config/model_names.h"
#include "engine/execute/run_record.h"
#include "engine/execute/select.h"
#include "engine/plan/lower/strategy.h"
#include "engine/plan/search/planner.h"
#include "engine/plan/search/reached_rates.h"
#include "engine/profile/profile_folder.h"
#include "engine/report/models_report.h"
#include "engine/report/models_table.h"
#include "engine/report/plan_report.h"
#include "engine/report/progress.h"
#include "engine/report/tensorboard.h"
#include "engine/report/wrapped.h"
#include "engine/run/device.h"
#include "engine/run/one_run.h"
#include "engine/run/precision.h"
#include "engine/tune/request_of_run.h"

namespace strata {
namespace {

/// A rung compares what all models have; besides, they validate at the end.
void validate_at_rungs(RunModels& run) {
  if (run.select.rung_steps.empty() || run.select.by != SelectBy::validation) return;
  for (NamedRun& model : run.models) {
    RunConfig::TrainSection& train = model.config.train;
    if (train.validate_every == 0)
      train.validate_every = train.epochs ? std::numeric_limits<std::int64_t>::max() : train.steps;
  }
}

/// Epochs are steps once the data are read. Throws ConfigError.
void require_rungs_before_end(const Selection& select, const NamedRun& model) {
  const RunConfig::TrainSection& train = model.config.train;
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

class ModelsTraining {
 public:
  ModelsTraining(const TrainCommand& command, RunModels run, Job& job)
      : command_(command),
        run_(std::move(run)),
        job_(job),
        opening_(command.verbose),
        advice_(job, command) {}

  int train() {
    validate_at_rungs(run_);
    for (NamedRun& model : run_.models) {
      precisions_.push_back(
          agree_on_precision(model.config, command_.fresh, without_bf16(job_.world()), job_.world()));
    }
    job_.set_watchdog(static_cast<double>(first().train.watchdog));
    if (command_.dump_config) {
      if (job_.is_first()) std::cout << dump(run_);
      return 0;
    }
    bind_to_share(job_.local_rank(), job_.local_size());
    lock_folder();
    record_ = read_record(run_, command_.fresh, job_.world());
    if (!run_.checkpoint_path.empty()) record_.run_file = seen_from(run_.checkpoint_path, command_.run_file);
    prepare();
    for (std::size_t m = 0; m < run_.models.size(); ++m) {
      if (!is_over(record_, run_.models[m])) trained_.push_back(m);
    }
    if (!trained_.empty()) record_.best.clear();
    return trained_.empty() ? report({}, Measurements(), Traffic()) : run();
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct RungLosses : TrainListener {
    RungLosses(ModelsTraining& training, std::size_t trained) : training_(training), trained_(trained) {}
    void on_step(const StepReport& report) override { training_.note_loss(trained_, report); }

    ModelsTraining& training_;
    std::size_t trained_;
  };

  /// The table looks at the run, so it ends with that.
  struct TableOfRun {
    explicit TableOfRun(std::optional<ModelsTable>& table) : table_(table) {}
    ~TableOfRun() {
      if (table_) table_->finish();
    }
    TableOfRun(const TableOfRun&) = delete;
    TableOfRun& operator=(const TableOfRun&) = delete;

    std::optional<ModelsTable>& table_;
  };

  const RunConfig& first() const { return run_.models.front().config; }
  const std::string& name_of_model(std::size_t trained) const { return run_.models[trained_[trained]].name; }

  void prepare() {
    check_reports(command_, job_);
    // A model that is not trained any more must be the one that was.
    std::vector<RunConfig> agreed;
    for (const NamedRun& model : run_.models) agreed.push_back(model.config);
    prepared_ = prepare_run(agreed, command_.fresh, job_.run_rank(), notes_on_terminal());
    for (std::size_t m = 0; m < run_.models.size(); ++m) {
      run_.models[m].config.train.steps = prepared_.models[m].config.train.steps;
      require_rungs_before_end(run_.select, run_.models[m]);
    }
  }

  /// The record is of one run at a time; a lock of each model's own folder keeps others from that.
  void lock_folder() {
    if (run_.checkpoint_path.empty()) return;
    on_first_rank(job_.world(), [&] {
      std::vector<std::string> warnings;
      lock_ = lock_checkpoints(run_.checkpoint_path, ".strata-run-lock", FileSystem::real(), warnings);
      for (const std::string& warning : warnings) std::cerr << "warning: " << warning << '\n';
    });
  }

  void plan() {
    std::vector<ConfiguredModel> models;
    for (const std::size_t m : trained_)
      models.push_back({run_.models[m].name, &prepared_.models[m].config, &prepared_.models[m].model});
    on_every_rank(job_.world(), [&] {
      planner_.emplace(models_to_plan(models), true, prepared_.rates);
      plans_.push_back(or_explain(command_, [&] { return plans_in(precisions_.front(), *planner_); }));
    });
    require_one_plan(plans_.back(), job_.world());
  }

  const Plan* replan(const SeveralModels::Steps& remaining) {
    std::optional<std::vector<Plan>> plans = planner_->find(remaining);
    if (!plans) return nullptr;
    plans_.push_back(std::move(*plans));
    require_one_plan(plans_.back(), job_.world());
    return &of_this_rank(plans_.back());
  }

  const Plan& of_this_rank(const std::vector<Plan>& plans) const {
    return planner_->of_rank(plans, job_.rank());
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

  SeveralModels several() {
    return {.replan = [this](const SeveralModels::Steps& remaining) { return replan(remaining); },
            .on_begin =
                [this] {
                  if (command_.fresh) set_aside_record();
                },
            .on_end = [this](std::size_t m, const TrainResult& result) { note_end(m, result); },
            .rung_steps = run_.select.rung_steps,
            .choose = [this](std::int64_t step, const auto& results) { return choose(step, results); }};
  }

  std::vector<ModelLabel> labels() const {
    std::vector<ModelLabel> labels;
    for (const std::size_t m : trained_) {
      const RunConfig& config = prepared_.models[m].config;
      labels.push_back(
          {run_.models[m].name, config.train.steps, config.train.batch * config.data.sequence_length});
    }
    return labels;
  }

  int run() {
    plan();
    const Plan& first_plan = of_this_rank(plans_.front());
    std::vector<ProductsOf> products;
    for (const std::size_t m : trained_)
      products.push_back({prepared_.models[m].model, prepared_.models[m].config.precision(),
                          microbatch_of_rank(prepared_.models[m].config)});
    rates_ = measure_machine(*prepared_.machine.device, *first().train.precision, link_limit(first()),
                             host_threads(first()), products, job_.world());
    std::vector<Trainer::ModelSetup> models;
    std::vector<std::shared_ptr<const Companions>> companions;
    for (const std::size_t m : trained_) {
      companions.push_back(prepared_.models[m].companions);
      models.push_back({prepared_.models[m].config, prepared_.models[m].model, data_of(prepared_.models[m])});
    }
    const RunConfig& config = prepared_.models.front().config;
    std::vector<RoundListener*> recording;
    if (!command_.profile.empty()) recording.push_back(&recorded_);
    const std::unique_ptr<StepTrace> trace = open_trace(config, job_, names_of_trained());
    if (trace) recording.push_back(&*trace);
    Trainer trainer(std::move(models), first_plan, *prepared_.machine.device,
                    {.fresh = command_.fresh,
                     .run_file = command_.run_file,
                     .watchdog_seconds = static_cast<double>(config.train.watchdog),
                     .companions = std::move(companions),
                     .world = job_.world(),
                     .make_device_group = job_.size() > 1 ? device_groups(config) : MakeDeviceGroup(),
                     .on_failure = [this](const std::exception& error) { job_.tell(error); },
                     .recording = recording,
                     .several = several()});
    trainer.measure_nvme(rates_);
    product_rate_.emplace(rates_.flops_per_second);
    std::list<Listeners> listeners(trained_.size());
    std::list<MetricsLog> logs;
    std::list<TensorBoardLog> curves;
    std::vector<std::unique_ptr<RungLosses>> rung_losses;
    std::optional<MetricsLog> log_of_run;
    if (job_.is_first() && !run_.metrics.empty()) log_of_run.emplace(run_.metrics);
    if (job_.is_first()) say_plan(trainer);
    std::vector<TrainListener*> of_models;
    std::size_t m = 0;
    for (Listeners& own : listeners) {
      own.add(advice_);
      own.add(*rung_losses.emplace_back(std::make_unique<RungLosses>(*this, m)));
      if (job_.is_first()) listen(m, own, logs, log_of_run, curves);
      of_models.push_back(&own);
      ++m;
    }
    const LaneStatus::Watch watch(job_.status(), [&trainer] { return trainer.describe_lanes(); });
    const TableOfRun table(table_);
    const Clock::time_point start = Clock::now();
    std::vector<TrainResult> results = trainer.train(stop_on_signals(), of_models);
    seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    if (table_) table_->finish();
    rates_.flops_per_second = product_rate_->now();
    if (job_.is_first() && recorded_.is_there()) {
      rates_ = reached_rates(std::move(rates_), plans_.front(), planner_->models(), recorded_.get().seconds);
      const std::vector<StepProfile> planned = profiles_of(*planner_, plans_.front(), rates_);
      write_profile(command_.profile, command_.run_file, planned,
                    {measured_beside(planned.front(), first_plan.training(), recorded_.get())});
    }
    return report(std::move(results), trainer.measured(), trainer.planned());
  }

  void listen(std::size_t trained, Listeners& listeners, std::list<MetricsLog>& logs,
              const std::optional<MetricsLog>& log_of_run, std::list<TensorBoardLog>& curves) {
    listeners.add(table_->of(trained));
    const RunConfig::ReportSection& own = prepared_.models[trained_[trained]].config.report;
    const auto add_log = [&](MetricsLog log) {
      log.say_first("data", data_json(prepared_.models[trained_[trained]].facts));
      listeners.add(logs.emplace_back(std::move(log)));
    };
    if (!own.metrics.empty()) add_log(MetricsLog(own.metrics));
    if (!own.tensorboard.empty()) {
      listeners.add(curves.emplace_back(own.tensorboard, *product_rate_, [this, trained] {
        return step_costs(of_this_rank(plans_.back()), trained);
      }));
    }
    if (log_of_run) add_log(log_of_run->of_model(name_of_model(trained)));
  }

  void say_plan(const Trainer& trainer) {
    const Plan& plan = of_this_rank(plans_.front());
    std::vector<std::string> names;
    for (const NamedRun& model : run_.models) names.push_back(model.name);
    say_what_was_read(prepared_.models, names, opening_);
    say_where_memory_goes(prepared_.models.front().config, prepared_.machine.host, opening_);
    opening_.say(brief_plan_text(plan, plan.merged->round_seconds, rates_));
    RunConfig::CheckpointSection saves = prepared_.models.front().config.checkpoint;
    saves.path = run_.checkpoint_path;
    if (command_.profiled_steps == 0) opening_.say(saves_text(saves));
    for (std::size_t m = 0; m < run_.models.size(); ++m) {
      const AgreedPrecision& precision = precisions_[m];
      if (!precision.line.empty())
        opening_.add(run_.models[m].name + ": " + precision.line, !precision.is_chosen);
      for (const std::string& warning : prepared_.models[m].warnings)
        std::cerr << "warning: " << run_.models[m].name << ": " << warning << '\n';
    }
    opening_.detail(plan_text(plan, planner_->models(), &rates_));
    opening_.detail("scratch  " + scratch_text(prepared_.machine.scratch));
    say_machine(trainer, opening_);
    std::string memory;
    for (const Tier tier : kTiers) {
      if (plan.arena_bytes(tier) > 0)
        memory += fmt::format("{}{} {}", memory.empty() ? "" : "  ", name_of(tier),
                              format_bytes(plan.arena_bytes(tier)));
    }
    table_.emplace(labels(), memory, isatty(STDERR_FILENO) != 0, ModelsTable::Surroundings::real(),
                   panel_plan(plan, [&trainer] { return trainer.live(); }));
  }

  std::vector<std::string> names_of_trained() const {
    std::vector<std::string> names;
    for (std::size_t m = 0; m < trained_.size(); ++m) names.push_back(name_of_model(m));
    return names;
  }

  int report(std::vector<TrainResult> results, const Measurements& measured, const Traffic& planned) {
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
    const ModelsReport report{.plan = plans_.empty() ? nullptr : &of_this_rank(plans_.front()),
                              .models = outcomes,
                              .measured = measured,
                              .planned = planned,
                              .rates = rates_,
                              .seconds = seconds_,
                              .by_validation = run_.select.by == SelectBy::validation};
    const std::string leaderboard = leaderboard_text(report, command_.verbose);
    if (command_.json == "-") {
      std::cerr << leaderboard;
    } else {
      std::cout << for_output(leaderboard);
    }
    nlohmann::json json = models_json(report);
    json["opening"] = opening_.lines();
    for (std::size_t m = 0; m < prepared_.models.size(); ++m)
      json["models"][m]["data"] = data_json(prepared_.models[m].facts);
    write_json(command_.json, json);
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

  const TrainCommand& command_;
  RunModels run_;
  Job& job_;
  Opening opening_;
  HangAdvice advice_;
  std::vector<AgreedPrecision> precisions_;
  std::unique_ptr<FolderLock> lock_;  ///< of the run's folder, if it has one; rank 0 has it
  RunRecord record_;
  std::vector<std::string> failed_;   ///< since the last rung: models that could not be saved
  std::vector<std::size_t> trained_;  ///< numbers of the models that are trained in this process
  PreparedRun prepared_;
  MachineRates rates_;
  std::optional<ProductRate> product_rate_;  ///< as models' curves count by it
  std::optional<Planner> planner_;
  EarlyStep recorded_;                   ///< of the first plan, if a profile is asked for
  std::deque<std::vector<Plan>> plans_;  ///< one after another
  std::optional<ModelsTable> table_;
  double seconds_ = 0;
};

}  // namespace

int train_models(const TrainCommand& command, RunModels run, Job& job) {
  return ModelsTraining(command, std::move(run), job).train();
}

}  // namespace strata
