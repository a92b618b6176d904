// strata train: plan, run, report.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/topology.h"
#include "collectives/agreement.h"
#include "engine/cli/commands.h"
#include "engine/cli/device.h"
#include "engine/cli/job.h"
#include "engine/cli/one_run.h"
#include "engine/cli/precision.h"
#include "engine/cli/setup.h"
#include "engine/config/describe.h"
#include "engine/config/load.h"
#include "engine/data/byte_tokens.h"
#include "engine/plan/search/host_budget.h"
#include "engine/report/plan_report.h"
#include "engine/report/policy_report.h"
#include "engine/report/progress.h"
#include "engine/report/train_report.h"

namespace strata {
namespace {

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

/// The first signal asks for a clean stop; the next one ends the process the usual way.
void request_stop(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

std::string same_command(const TrainCommand& command) {
  std::string again = "strata train " + command.run_file;
  for (const std::string& override : command.overrides) again += fmt::format(" --set '{}'", override);
  return again;
}

/// Keeps up to date what the job says to do after a hang.
class HangAdvice : public TrainListener {
 public:
  HangAdvice(Job& job, const TrainCommand& command) : job_(job), command_(command) {
    set("nothing was saved in this run; see to it and begin again");
  }
  void on_safe_step(std::int64_t step) override {
    set(fmt::format("step {} is saved; see to it and go on", step));
  }

 private:
  void set(const std::string& what) {
    job_.set_advice(fmt::format("; {} with: {}, with more train.watchdog if it is only slow", what,
                                same_command(command_)));
  }

  Job& job_;
  const TrainCommand& command_;
};

std::string how_to_go_on(const TrainCommand& command, const RunConfig& config, const TrainResult& result) {
  if (config.checkpoint.path.empty()) {
    return fmt::format("stopped after step {}; nothing was saved, since the run file has no checkpoint.path",
                       result.counters.step);
  }
  return fmt::format("stopped after step {} and saved; go on with: {}", result.counters.step,
                     same_command(command));
}

bool learned_nothing(const TrainResult& result) {
  return !result.steps.empty() && std::ranges::all_of(result.steps, &StepReport::skipped);
}

std::string why_nothing_was_learned(const TrainResult& result) {
  return fmt::format(
      "strata: the run has learned nothing: the gradients of all its {} steps were not finite, and the last "
      "loss is {}; try a "
      "smaller optimizer.lr or train.loss_scale.initial, another train.precision, or look at weights and "
      "data",
      result.steps.size(), result.steps.back().loss);
}

/// What a run needs before it trains, and what may be wrong with it.
struct Setup {
  RunConfig config;
  Model model;
  std::unique_ptr<BatchLoader> data;
  std::unique_ptr<Device> device;
  std::vector<ScratchPart> scratch;
  HostShare host;
  std::vector<std::string> warnings;
};

Setup prepare(const TrainCommand& command, const RunConfig& agreed, const Job& job) {
  Setup setup{
      .config = agreed, .model = {}, .data = {}, .device = {}, .scratch = {}, .host = {}, .warnings = {}};
  RunConfig& config = setup.config;
  if (config.ranks() != job.size()) {
    const RunConfig::ParallelSection& parallel = config.parallel;
    std::string stages;
    if (parallel.context > 1) stages += fmt::format(" of {} context ranks", parallel.context);
    if (parallel.pipeline > 1) stages += fmt::format(" of {} pipeline stages", parallel.pipeline);
    if (parallel.tensor > 1) stages += fmt::format(" of {} tensor ranks", parallel.tensor);
    throw ConfigError(fmt::format(
        "parallel.data: the run file asks for {} data rank{}{}, and {} {} started; start it with "
        "mpirun -n {}{}",
        parallel.data, parallel.data == 1 && !stages.empty() ? "" : "s", stages, job.size(),
        job.size() == 1 ? "was" : "were", config.ranks(),
        job.size() % config.ranks_of_data_rank() == 0 ? ", or leave parallel.data and parallel.shard out"
                                                      : ""));
  }
  if (job.is_first()) check_json_path("--json", command.json);
  setup.model = load_model_of_rank(config, job.rank());
  if (job.is_first()) warn_of_model(config);
  const std::int64_t vocabulary = setup.model.architecture.vocabulary;
  const std::string doubt = doubt_about_bytes(config, vocabulary);
  setup.data = std::make_unique<BatchLoader>(config, vocabulary);
  setup.warnings = setup.data->warnings();
  if (!doubt.empty()) setup.warnings.push_back(doubt);
  // The plan must not ask for more held-out microbatches than there are.
  if (config.train.validate_every > 0)
    config.train.validation_batches = setup.data->validation_microbatches();
  setup.device = make_device(config, job.local_rank());
  setup.scratch = kernel_scratch(config, setup.model);
  config.memory.device = device_budget(config, *setup.device, total(setup.scratch));
  setup.host = share_of_host(config, setup.model, this_host(config), job.local_size(),
                             in_host_memory(config, setup.scratch));
  set_unlimited(config.memory, config.device.kind, setup.host);
  return setup;
}

void say_where_memory_goes(const RunConfig& config, const HostShare& host) {
  std::cerr << "memory   " << host.describe() << '\n';
  if (const std::string doubt = warn_of_budgets(config, host); !doubt.empty())
    std::cerr << "warning: " << doubt << '\n';
}

int train(const TrainCommand& command, Job& job) {
  HangAdvice advice(job, command);
  RunConfig agreed;
  on_every_rank(job.world(),
                [&] { agreed = load_run_config(command.run_file, command.overrides, job.size()); });
  job.set_watchdog(static_cast<double>(agreed.train.watchdog));
  const AgreedPrecision precision =
      agree_on_precision(agreed, command.fresh, without_bf16(job.world()), job.world());
  if (command.dump_config) {
    if (job.is_first()) std::cout << dump(agreed);
    return 0;
  }
  bind_to_share(job.local_rank(), job.local_size());
  Setup setup;
  on_every_rank(job.world(), [&] { setup = prepare(command, agreed, job); });
  RunConfig& config = setup.config;
  const MachineRates planning = agree_on_hosts(config, job.world());
  require_one_run(config, setup.model.architecture, *setup.data, command.fresh, job.world());
  if (job.is_first()) {
    say_where_memory_goes(config, setup.host);
    if (!precision.line.empty()) std::cerr << precision.line << '\n';
  }
  std::vector<Plan> plans;
  on_every_rank(job.world(), [&] { plans = plans_in(precision, config, setup.model, planning); });
  require_one_plan(plans, job.world());
  const Plan& plan = plans[static_cast<std::size_t>(plans.front().strategy.mesh.stage(job.rank()))];
  MachineRates rates =
      measure_machine(*setup.device, config.precision(), link_limit(config), host_threads(config));
  Trainer trainer(config, setup.model, plan, *setup.device, training_data(*setup.data, setup.model.context),
                  {.fresh = command.fresh,
                   .watchdog_seconds = static_cast<double>(config.train.watchdog),
                   .world = job.world(),
                   .make_device_group = job.size() > 1 ? device_groups(config) : MakeDeviceGroup(),
                   .on_failure = [&job](const std::exception& error) { job.tell(error); }});
  trainer.measure_nvme(rates);

  ProgressLine progress(config, plan, rates, isatty(STDERR_FILENO) != 0);
  std::optional<MetricsLog> metrics;
  Listeners listeners;
  listeners.add(advice);
  if (job.is_first()) {
    listeners.add(progress);
    if (!config.report.metrics.empty()) listeners.add(metrics.emplace(config.report.metrics));
    std::cerr << plan_text(plan, setup.model, &rates)
              << (config.optimizer.groups.empty() ? "" : policies_text(setup.model)) << "scratch  "
              << scratch_text(setup.scratch) << '\n';
    for (const std::string& warning : setup.warnings) std::cerr << "warning: " << warning << '\n';
    if (const std::string drives = trainer.describe_nvme(); !drives.empty())
      std::cerr << "drives   " << drives << '\n';
  }

  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, request_stop);
  const TrainResult result = trainer.train(stop_requested, listeners);
  std::vector<nlohmann::json> ranks;
  for (const std::string& text : texts_of_ranks(job.world(), [&] { return rank_json(plan, result).dump(); }))
    ranks.push_back(nlohmann::json::parse(text));
  const bool failed = result.interrupted || learned_nothing(result);
  if (!job.is_first()) return failed ? 1 : 0;
  progress.finish();
  const TrainReport report{plan, result, rates, std::move(ranks)};
  (command.json == "-" ? std::cerr : std::cout) << summary_text(report);
  write_json(command.json, train_json(report));
  if (learned_nothing(result)) std::cerr << why_nothing_was_learned(result) << '\n';
  if (result.interrupted) std::cerr << how_to_go_on(command, config, result) << '\n';
  return failed ? 1 : 0;
}

}  // namespace

int run_train(const TrainCommand& command) {
  Job job;
  return job.run([&] { return train(command, job); });
}

}  // namespace strata
