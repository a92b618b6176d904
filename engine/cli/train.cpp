// strata train: plan, run, report.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <optional>
#include <thread>

#include "collectives/agreement.h"
#include "engine/base/error.h"
#include "engine/base/topology.h"
#include "engine/cli/commands.h"
#include "engine/cli/device.h"
#include "engine/cli/job.h"
#include "engine/cli/setup.h"
#include "engine/config/describe.h"
#include "engine/config/load.h"
#include "engine/report/plan_report.h"
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

std::string how_to_go_on(const TrainCommand& command, const RunConfig& config, const TrainResult& result) {
  if (config.checkpoint.path.empty()) {
    return fmt::format("stopped after step {}; nothing was saved, since the run file has no checkpoint.path",
                       result.counters.step);
  }
  std::string again = "strata train " + command.run_file;
  for (const std::string& override : command.overrides) again += fmt::format(" --set '{}'", override);
  return fmt::format("stopped after step {} and saved; go on with: {}", result.counters.step, again);
}

/// What a run needs before it trains, and what may be wrong with it.
struct Setup {
  RunConfig config;
  Model model;
  std::unique_ptr<BatchLoader> data;
  std::unique_ptr<Device> device;
};

Setup prepare(const TrainCommand& command, const Job& job) {
  Setup setup{.config = load_run_config(command.run_file, command.overrides, job.size()),
              .model = {},
              .data = {},
              .device = {}};
  RunConfig& config = setup.config;
  if (config.parallel.data != job.size()) {
    throw ConfigError(
        fmt::format("parallel.data: the run file asks for {0} data ranks, and {1} {2} started; start it with "
                    "mpirun -n {0}, or leave parallel.data and parallel.shard out",
                    config.parallel.data, job.size(), job.size() == 1 ? "was" : "were"));
  }
  if (job.is_first()) check_json_path(command.json);
  setup.model = load_model(config);
  if (job.is_first()) warn_of_model(config);
  setup.data = std::make_unique<BatchLoader>(config, setup.model.architecture.vocabulary);
  // The plan must not ask for more held-out microbatches than there are.
  if (config.train.validate_every > 0)
    config.train.validation_batches = setup.data->validation_microbatches();
  setup.device = make_device(config, job.local_rank());
  config.memory.device = device_budget(config, *setup.device);
  return setup;
}

/// Ranks run the same program, so in the memory of the one that has least.
void agree_on_budget(RunConfig& config, Communicator* world) {
  if (world == nullptr) return;
  auto bytes = static_cast<double>(config.memory.device);
  world->all_reduce(&bytes, &bytes, 1, Element::fp64, ReduceOp::min);
  if (bytes < static_cast<double>(config.memory.device)) config.memory.device = static_cast<Bytes>(bytes);
}

int train(const TrainCommand& command, Job& job) {
  if (command.dump_config) {
    if (job.is_first()) std::cout << dump(load_run_config(command.run_file, command.overrides, job.size()));
    return 0;
  }
  bind_to_share(job.local_rank(), job.local_size());
  Setup setup;
  on_every_rank(job.world(), [&] { setup = prepare(command, job); });
  RunConfig& config = setup.config;
  agree_on_budget(config, job.world());
  Plan plan;
  on_every_rank(job.world(), [&] { plan = make_plan(config, setup.model); });
  MachineRates rates =
      measure_machine(*setup.device, config.train.precision, link_limit(config), host_threads(config));
  Trainer trainer(config, setup.model, plan, *setup.device, training_data(*setup.data),
                  {.fresh = command.fresh,
                   .world = job.world(),
                   .make_device_group = job.size() > 1 ? device_groups(config) : MakeDeviceGroup()});
  trainer.measure_nvme(rates);

  ProgressLine progress(config, plan, rates, isatty(STDERR_FILENO) != 0);
  std::optional<MetricsLog> metrics;
  Listeners listeners;
  if (job.is_first()) {
    listeners.add(progress);
    if (!config.report.metrics.empty()) listeners.add(metrics.emplace(config.report.metrics));
    std::cerr << plan_text(plan, setup.model, &rates);
    if (const std::string drives = trainer.describe_nvme(); !drives.empty())
      std::cerr << "drives   " << drives << '\n';
  }

  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, request_stop);
  const TrainResult result = trainer.train(stop_requested, listeners);
  if (!job.is_first()) return result.interrupted ? 1 : 0;
  progress.finish();
  const TrainReport report{plan, result, rates};
  (command.json == "-" ? std::cerr : std::cout) << summary_text(report);
  write_json(command.json, train_json(report));
  if (!result.interrupted) return 0;
  std::cerr << how_to_go_on(command, config, result) << '\n';
  return 1;
}

}  // namespace

int run_train(const TrainCommand& command) {
  Job job;
  return job.run([&] { return train(command, job); });
}

}  // namespace strata
