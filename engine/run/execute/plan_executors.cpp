#include "engine/run/execute/plan_executors.h"

#include <algorithm>
#include <utility>

#include "engine/config/run_config.h"

namespace strata {
namespace {

LiveFigures total_of(LiveFigures before, const Executor& executor) {
  const LiveFigures now = executor.live();
  for (const Lane lane : kLanes) before.busy_seconds[lane] += now.busy_seconds[lane];
  for (const Tier tier : kTiers)
    before.peak_bytes[tier] = std::max(before.peak_bytes[tier], now.peak_bytes[tier]);
  return before;
}

}  // namespace

PlanExecutors::PlanExecutors(Setup setup) : setup_(std::move(setup)) {
  if (!setup_.recording.empty()) recorder_.emplace(setup_.recording);
}

Executor::Options PlanExecutors::options() const {
  const RunConfig& config = setup_.config;
  Executor::Options options{.mode = config.plan.lanes,
                            .watchdog_seconds = setup_.watchdog_seconds,
                            .flops_per_second = config.device.flops_per_second};
  if (config.device.sent_per_second)
    options.sent_per_second = static_cast<double>(*config.device.sent_per_second);
  options.on_failure = setup_.on_failure;
  if (setup_.ranks != nullptr) {
    options.ranks_failure = [ranks = setup_.ranks] { return ranks->failure(); };
    options.watchdog_seconds *= 2;  // so that a rank that does not come is named by one that waits for it
  }
  return options;
}

void PlanExecutors::set(const Plan& plan, const std::vector<std::unique_ptr<ModelRun>>& models) {
  std::vector<Executor::ModelOperations> training(models.size());
  OfInterludes<std::vector<Executor::ModelOperations>> interludes;
  std::vector<SaveSchedule> saves(models.size());
  for (std::size_t m = 0; m < models.size(); ++m) {
    const std::optional<ModelPlan>& own = plan.models[m];
    if (!own) continue;
    training[m] = {&models[m]->training(), &own->training.program.instructions};
    for (const auto& [interlude, program] : own->interludes) {
      interludes[interlude].resize(models.size());
      interludes[interlude][m] = {models[m]->interlude(interlude), &program.program.instructions};
    }
    saves[m] = models[m]->saves();
  }
  Executor::Options of_steps = options();
  const std::lock_guard watching(watching_);
  if (training_) {
    measured_ = measured();
    lived_ = total_of(lived_, *training_);
  }
  interludes_.clear();
  for (const auto& [interlude, program] : plan.interludes())
    interludes_.try_emplace(interlude, program, std::move(interludes[interlude]), setup_.streams, of_steps);
  of_steps.observer = setup_.observer;
  of_steps.saves = std::move(saves);
  of_steps.recorder = recorder_ ? &*recorder_ : nullptr;
  training_.emplace(plan.training(), std::move(training), setup_.streams, of_steps);
}

Executor::RunResult PlanExecutors::train(const std::vector<StepRange>& steps, const std::atomic<bool>& stop,
                                         const Executor::OnStep& on_step) {
  return run(*training_, steps, stop, on_step);
}

void PlanExecutors::run(Interlude interlude, const std::vector<StepRange>& steps,
                        const std::atomic<bool>& stop) {
  run(interludes_.at(interlude), steps, stop, {});
}

Executor::RunResult PlanExecutors::run(Executor& executor, const std::vector<StepRange>& steps,
                                       const std::atomic<bool>& stop, const Executor::OnStep& on_step) {
  const auto set_running = [this](const Executor* running) {
    const std::lock_guard watching(watching_);
    running_ = running;
  };
  set_running(&executor);
  Executor::RunResult result = executor.run(steps, stop, on_step);
  set_running(nullptr);
  return result;
}

Measurements PlanExecutors::measured() const {
  Measurements sum = measured_;
  const Measurements& training = training_->measurements();
  sum.count.add(training.count);
  for (const Lane lane : kLanes) sum.busy_seconds[lane] += training.busy_seconds[lane];
  for (const auto& [interlude, executor] : interludes_) {
    MeterCount count = executor.measurements().count;
    count.traffic = {};  // that of training steps is reported
    sum.count.add(count);
  }
  return sum;
}

std::vector<std::string> PlanExecutors::describe_lanes() const {
  const std::lock_guard watching(watching_);
  if (running_ == nullptr) return {"no lane runs: between steps, models are loaded, saved or planned"};
  std::vector<std::string> lines;
  for (const auto& [interlude, executor] : interludes_) {
    if (running_ == &executor)
      lines.emplace_back(interlude == Interlude::validation ? "in a validation:" : "taking samples:");
  }
  for (std::string& line : running_->describe_lanes()) lines.push_back(std::move(line));
  return lines;
}

LiveFigures PlanExecutors::live() const {
  const std::lock_guard watching(watching_);
  return total_of(lived_, *training_);
}

}  // namespace strata
