// strata train: plan, run, report.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/nth.h"
#include "base/topology.h"
#include "collectives/agreement.h"
#include "engine/cli/commands.h"
#include "engine/cli/job.h"
#include "engine/cli/limits.h"
#include "engine/cli/next_commands.h"
#include "engine/cli/overwriting.h"
#include "engine/cli/planning.h"
#include "engine/cli/profiling.h"
#include "engine/cli/setup.h"
#include "engine/cli/training.h"
#include "engine/config/describe.h"
#include "engine/plan/search/certificate.h"
#include "engine/plan/search/reached_rates.h"
#include "engine/profile/profile_folder.h"
#include "engine/report/plan_report.h"
#include "engine/report/policy_report.h"
#include "engine/report/progress.h"
#include "engine/report/tensorboard.h"
#include "engine/report/train_report.h"
#include "engine/report/wrapped.h"
#include "engine/run/default_folder.h"
#include "engine/run/device.h"
#include "engine/run/layout.h"
#include "engine/run/load_model.h"
#include "engine/run/one_run.h"
#include "engine/run/precision.h"

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
      "strata: the run has learned nothing: the gradients of all its {} steps were not finite, and the last "
      "loss is {}; {}",
      result.steps.size(), result.steps.back().loss, kWhatHelps);
}

void refuse_overwriting_inputs(const TrainCommand& command, const RunModels& run) {
  CommandFiles files = files_of(command, run);
  files.outputs.push_back({"--json", command.json});
  add_profile(files, "--profile", command.profile);
  refuse_overwriting(files);
}

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
  if (run.is_several) return train_models(command, std::move(run), job);
  HangAdvice advice(job, command);
  RunConfig agreed = std::move(run.models.front().config);
  job.set_watchdog(static_cast<double>(agreed.train.watchdog));
  const AgreedPrecision precision =
      agree_on_precision(agreed, command.fresh, without_bf16(job.world()), job.world());
  const AgreedLayout layout = choose_layout(agreed, command.fresh, job.size(), job.world());
  if (command.dump_config) {
    if (job.is_first()) std::cout << dump(agreed);
    return 0;
  }
  bind_to_share(job.local_rank(), job.local_size());
  check_reports(command, job);
  const PreparedRun prepared = prepare_run({agreed}, command.fresh, job.run_rank(), notes_on_terminal());
  const PreparedModel& setup = prepared.models.front();
  const PreparedMachine& machine = prepared.machine;
  const RunConfig& config = setup.config;
  Opening opening(command.verbose);
  if (job.is_first()) {
    // A rank of several that share layers has a part of the model.
    opening.say(brief_model_text(config.parallel.tensor > 1 ? model_of_run(load_architecture(config), config)
                                                            : setup.model));
    say_what_was_read(prepared.models, {""}, opening);
    say_where_memory_goes(config, machine.host, opening);
    opening.add(precision.line, !precision.is_chosen);
    opening.say(layout.line);
  }
  std::optional<Planner> planner;
  std::vector<Plan> plans;
  on_every_rank(job.world(), [&] {
    planner.emplace(std::vector{model_to_plan({"", &config, &setup.model})}, false, prepared.rates);
    plans = or_explain(command, [&] { return plans_in(precision, *planner); });
  });
  require_one_plan(plans, job.world());
  const Plan& plan = planner->of_rank(plans, job.rank());
  const ProductsOf products{setup.model, config.precision(), plan.only().strategy.microbatch};
  MachineRates measured = measure_machine(*machine.device, *config.train.precision, link_limit(config),
                                          host_threads(config), {&products, 1}, job.world());
  EarlyStep recorded;
  BusyRounds busy;
  std::vector<RoundListener*> recording = {&busy};
  if (!command.profile.empty()) recording.push_back(&recorded);
  const std::unique_ptr<StepTrace> trace = open_trace(config, job);
  if (trace) recording.push_back(&*trace);
  Trainer trainer({{config, setup.model, data_of(setup)}}, plan, *machine.device,
                  {.fresh = command.fresh,
                   .run_file = command.run_file,
                   .layout = layout.settings,
                   .watchdog_seconds = static_cast<double>(config.train.watchdog),
                   .companions = {setup.companions},
                   .world = job.world(),
                   .make_device_group = job.size() > 1 ? device_groups(config) : MakeDeviceGroup(),
                   .on_failure = [&job](const std::exception& error) { job.tell(error); },
                   .recording = recording});
  trainer.measure_nvme(measured);
  const bool is_by_profile = !config.plan.machine.empty();
  const StepTimes predicted =
      job.is_first() ? simulated_times(plans, is_by_profile ? prepared.rates : measured) : StepTimes();

  ProductRate product_rate(measured.flops_per_second);
  ProgressLine progress(config, plan, product_rate,
                        {.is_terminal = isatty(STDERR_FILENO) != 0,
                         .is_verbose = command.verbose,
                         .live = [&trainer] { return trainer.live(); }});
  const LaneStatus::Watch watch(job.status(), [&trainer] { return trainer.describe_lanes(); });
  std::optional<MetricsLog> metrics;
  std::optional<TensorBoardLog> curves;
  Listeners listeners;
  listeners.add(advice);
  if (job.is_first()) {
    listeners.add(progress);
    if (!config.report.metrics.empty()) {
      listeners.add(metrics.emplace(config.report.metrics));
      metrics->say_first("data", data_json(setup.facts));
    }
    if (!config.report.tensorboard.empty()) {
      listeners.add(
          curves.emplace(config.report.tensorboard, product_rate, [&plan] { return step_costs(plan); }));
    }
    opening.say(brief_plan_text(plan, predicted.step, measured));
    if (command.profiled_steps == 0) opening.say(saves_text(config.checkpoint));
    opening.detail(plan_text(plan, planner->models(), &measured));
    if (!config.optimizer.groups.empty()) opening.detail(policies_text(setup.model));
    opening.detail("scratch  " + scratch_text(machine.scratch));
    say_machine(trainer, opening);
    for (const std::string& warning : setup.warnings) std::cerr << "warning: " << warning << '\n';
  }

  const TrainResult result = trainer.train(stop_on_signals(), listeners);
  std::vector<nlohmann::json> ranks;
  for (const std::string& text : texts_of_ranks(job.world(), [&] { return rank_json(plan, result).dump(); }))
    ranks.push_back(nlohmann::json::parse(text));
  // A few steps for a profile may all be ones by which fp16 finds its scale.
  const bool was_ended = !result.ended.empty();
  const bool was_in_vain = !was_ended && command.profiled_steps == 0 && learned_nothing(result);
  const bool failed = result.interrupted || was_in_vain;
  if (!job.is_first()) return failed ? 1 : 0;
  progress.finish();
  MachineRates rates = measured;
  rates.flops_per_second = product_rate.now();
  rates = reached_rates(std::move(rates), plans, planner->models(), step_time(result.steps).seconds);
  if (recorded.is_there())
    rates = reached_rates(std::move(rates), plans, planner->models(), recorded.get().seconds);
  TrainReport report{.plan = plan,
                     .result = result,
                     .rates = rates,
                     .bound = certify(plans, planner->models(), rates),
                     .measured = measured,
                     .ranks = std::move(ranks),
                     .is_by_profile = is_by_profile};
  if (std::optional<StepTimes> times = busy.mean()) {
    times->step = report.median_step_seconds();
    report.comparison = {predicted, *times};
  }
  const std::string summary = summary_text(report, command.verbose);
  if (command.json == "-") {
    std::cerr << summary;
  } else {
    std::cout << for_output(summary);
  }
  nlohmann::json json = train_json(report);
  json["opening"] = opening.lines();
  json["data"] = data_json(setup.facts);
  write_json(command.json, json);
  if (recorded.is_there()) {
    const std::vector<StepProfile> planned = profiles_of(*planner, plans, rates);
    write_profile(command.profile, command.run_file, planned,
                  {measured_beside(planned.front(), plan.training(), recorded.get())});
  } else if (!command.profile.empty() && !result.interrupted) {
    say_nothing_to_profile(command);
  }
  const bool has_learned = !was_ended && !was_in_vain && !updated_nothing(result);
  if (command.profiled_steps == 0) std::cerr << where_the_model_is(command, setup, result, has_learned, job);
  if (was_in_vain) std::cerr << why_nothing_was_learned(result) << '\n';
  if (was_ended) {
    std::cerr << fmt::format("strata: {}; {}\n", result.ended, kWhatHelps);
  } else if (result.interrupted) {
    std::cerr << how_to_resume(command, config, result, job) << '\n';
  }
  return failed ? 1 : 0;
}

}  // namespace

int run_train(const TrainCommand& command) {
  std::signal(SIGPIPE, SIG_IGN);  // the reader of the log may end before the run
  refuse_small_machine();
  Job job;
  return job.run([&] { return train(command, job); });
}

}  // namespace strata
