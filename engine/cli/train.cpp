// strata train: plan, run, report.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <optional>
#include <thread>

#include "engine/base/error.h"
#include "engine/cli/commands.h"
#include "engine/cli/device.h"
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

}  // namespace

int run_train(const TrainCommand& command) {
  RunConfig config = load_run_config(command.run_file, command.overrides);
  if (command.dump_config) {
    std::cout << dump(config);
    return 0;
  }
  check_json_path(command.json);
  const Model model = load_model(config);
  const BatchLoader data(config, model.architecture.vocabulary);
  // The plan must not ask for more held-out microbatches than there are.
  if (config.train.validate_every > 0) config.train.validation_batches = data.validation_microbatches();
  const std::unique_ptr<Device> device = make_device(config);
  config.memory.device = device_budget(config, *device);
  const Plan plan = make_plan(config, model);
  MachineRates rates =
      measure_machine(*device, config.train.precision, link_limit(config), host_threads(config));
  Trainer trainer(config, model, plan, *device, training_data(data), {.fresh = command.fresh});
  trainer.measure_nvme(rates);

  ProgressLine progress(config, plan, rates, isatty(STDERR_FILENO) != 0);
  std::optional<MetricsLog> metrics;
  Listeners listeners;
  listeners.add(progress);
  if (!config.report.metrics.empty()) listeners.add(metrics.emplace(config.report.metrics));
  std::cerr << plan_text(plan, model, &rates);
  if (const std::string drives = trainer.describe_nvme(); !drives.empty()) std::cerr << "drives   " << drives << '\n';

  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  const TrainResult result = trainer.train(stop_requested, listeners);
  progress.finish();
  const TrainReport report{plan, result, rates};
  (command.json == "-" ? std::cerr : std::cout) << summary_text(report);
  write_json(command.json, train_json(report));
  if (!result.interrupted) return 0;
  std::cerr << how_to_go_on(command, config, result) << '\n';
  return 1;
}

}  // namespace strata
