// strata train: plan, run, report.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "collectives/agreement.h"
#include "engine/config/describe.h"
#include "engine/config/run_config.h"
#include "engine/plan/planner/run_certificate.h"
#include "engine/run/assembly/default_folder.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/job.h"
#include "engine/tools/cli/limits.h"
#include "engine/tools/cli/next_commands.h"
#include "engine/tools/cli/overwriting.h"
#include "engine/tools/cli/profiling.h"
#include "engine/tools/cli/setup.h"
#include "engine/tools/cli/training_run.h"
#include "engine/tools/profile/profile_folder.h"
#include "engine/tools/report/train_report.h"

namespace strata {
namespace {

std::string how_to_resume(const TrainCommand& command, const RunConfig& config, const TrainResult& result,
                          const Job& job) {
  const bool is_saved = command.profiled_steps == 0 && !config.checkpoint.path.empty();
  return fmt::format("stopped after step {}{}; {} with: {}", result.counters.step,
                     is_saved ? " and saved" : "", is_saved ? "resume" : "start again",
                     same_command(command, job));
}

/// What is left of the run, and what can be done with it. A model that has learned nothing is of no use.
std::string where_the_model_is(const TrainCommand& command, const PreparedModel& model,
                               const TrainResult& result, bool has_learned, const Job& job) {
  const RunConfig& config = model.config;
  if (config.checkpoint.path.empty())
    return "nothing was saved: checkpoint.path is none; give it a folder to keep the model\n";
  if (result.checkpoint.empty()) return fmt::format("nothing was saved in {}\n", config.checkpoint.path);
  std::string text;
  if (result.steps.empty() && !result.interrupted)
    text =
        fmt::format("the run has all its {} steps; raise train.{} to train on, or start over with --fresh\n",
                    result.counters.step, config.train.epochs ? "epochs" : "steps");
  text += fmt::format("the model is in {}\n", result.checkpoint);
  if (!has_learned) return text;
  text += commands_of_model(model, config.checkpoint.path + "-exported");
  if (!result.interrupted)
    text += fmt::format("  train on  {}\n", command_to_train_on(command, config, result.counters.step, job));
  return text;
}

bool learned_nothing(const TrainResult& result) {
  return !result.steps.empty() && std::ranges::all_of(result.steps, &StepReport::skipped);
}

constexpr const char* kWhatHelps =
    "try a smaller optimizer.lr or train.loss_scale.initial, another train.precision, or look at weights and "
    "data";

std::string why_nothing_was_learned(const TrainResult& result) {
  return fmt::format(
      "strata: the run has learned nothing: none of its {} steps made an update, the last of them for {}, "
      "and "
      "the last loss is {}; {}",
      result.steps.size(), why_skipped(result.steps.back()), result.steps.back().loss, kWhatHelps);
}

void refuse_overwriting_inputs(const TrainCommand& command, const RunModels& run) {
  CommandFiles files = files_of(command, run);
  files.outputs.push_back({"--json", command.json});
  add_profile(files, "--profile", command.profile);
  refuse_overwriting(files);
}

class OneModelRun : public TrainingRun {
 public:
  using TrainingRun::TrainingRun;

 private:
  std::vector<RoundListener*> recording() override { return {&busy_}; }

  void begin_progress(const Trainer& trainer) override {
    progress_.emplace(first(), current_plan(), *product_rate_,
                      ProgressLine::Options{.is_terminal = isatty(STDERR_FILENO) != 0,
                                            .is_verbose = command_.verbose,
                                            .live = [&trainer] { return trainer.live(); }});
  }
  TrainListener& progress_of(std::size_t /*trained*/) override { return *progress_; }
  void end_progress() override { progress_->finish(); }

  int report(std::vector<TrainResult> results, const Trainer* /*trainer*/) override {
    const TrainResult& result = results.front();
    const Plan& plan = current_plan();
    std::vector<nlohmann::json> ranks;
    for (const std::string& text :
         texts_of_ranks(job_.world(), [&] { return rank_json(plan, result).dump(); }))
      ranks.push_back(nlohmann::json::parse(text));
    // A few steps for a profile may all be ones by which fp16 finds its scale.
    const bool was_ended = !result.ended.empty();
    const bool was_in_vain = !was_ended && command_.profiled_steps == 0 && learned_nothing(result);
    const bool failed = result.interrupted || was_in_vain;
    if (!job_.is_first()) return failed ? 1 : 0;
    raise_rates(step_time(result.steps).seconds);
    if (recorded_.is_there()) raise_rates(recorded_.get().seconds);
    TrainReport report{.plan = plan,
                       .result = result,
                       .rates = rates_,
                       .bound = certify(plans_.front(), planner_->models(), rates_),
                       .measured = measured_,
                       .ranks = std::move(ranks),
                       .is_by_profile = !first().plan.machine.empty()};
    if (std::optional<StepTimes> times = busy_.mean()) {
      times->step = report.median_step_seconds();
      report.comparison = {predicted_, *times};
    }
    print_summary(summary_text(report, command_.verbose));
    const PreparedModel& model = prepared(0);
    nlohmann::json json = train_json(report);
    json["data"] = data_json(model.facts);
    write_report(std::move(json));
    write_profile_of_step();
    if (!command_.profile.empty() && !recorded_.is_there() && !result.interrupted)
      say_nothing_to_profile(command_);
    const bool has_learned = !was_ended && !was_in_vain && !updated_nothing(result);
    if (command_.profiled_steps == 0)
      std::cerr << where_the_model_is(command_, model, result, has_learned, job_);
    if (was_in_vain) std::cerr << why_nothing_was_learned(result) << '\n';
    if (was_ended) {
      std::cerr << fmt::format("strata: {}; {}\n", result.ended, kWhatHelps);
    } else if (result.interrupted) {
      std::cerr << how_to_resume(command_, first(), result, job_) << '\n';
    }
    return failed ? 1 : 0;
  }

  BusyRounds busy_;
  std::optional<ProgressLine> progress_;
};

int train(const TrainCommand& command, Job& job) {
  RunModels run;
  on_every_rank(job.world(), [&] {
    run = load_run_models(command.run_file, command.overrides, job.size());
    if (job.is_first() && !command.dump_config) refuse_overwriting_inputs(command, run);
    const bool goes_on = !command.fresh && !command.dump_config && command.profiled_steps == 0;
    if (job.is_first() && goes_on)
      refuse_other_run(
          command.run_file, run,
          "give this run a checkpoint.path of its own, or begin anew with --fresh, which keeps what is "
          "there");
  });
  if (command.profiled_steps > 0) shorten(run, command.profiled_steps);
  return run.is_several ? several_models_run(command, std::move(run), job)->train()
                        : OneModelRun(command, std::move(run), job).train();
}

}  // namespace

int run_train(const TrainCommand& command) {
  std::signal(SIGPIPE, SIG_IGN);  // the reader of the log may end before the run
  refuse_small_machine();
  Job job;
  return job.run([&] { return train(command, job); });
}

}  // namespace strata
