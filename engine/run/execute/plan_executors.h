// The programs of a run's plan on its lanes: the training steps of all models, and their interludes. A run
// has another plan once one of its models ends; what was measured under plans before it stays counted.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/place/plan.h"
#include "engine/run/execute/executor.h"
#include "engine/run/execute/model_run.h"
#include "engine/run/execute/ranks.h"
#include "engine/run/execute/step_recorder.h"

namespace strata {

class PlanExecutors {
 public:
  struct Setup {
    const RunConfig& config;  ///< lanes and throttles, which all models share
    const LaneStreams& streams;
    const Ranks* ranks = nullptr;  ///< if there are several
    double watchdog_seconds = 900;
    /// Called by the first lane that fails.
    std::function<void(const std::exception&)> on_failure = {};
    std::function<void(const Instruction&)> observer = {};  ///< of training steps, in serial mode
    std::vector<RoundListener*> recording = {};             ///< of training steps
  };
  /// REQUIRES: what is referred to outlives this.
  explicit PlanExecutors(Setup setup);

  /// Makes those of a plan, which take the place of those before. Between runs. REQUIRES: the plan lives
  /// until the next call, and the models outlive this.
  void set(const Plan& plan, const std::vector<std::unique_ptr<ModelRun>>& models);

  Executor::RunResult train(const std::vector<StepRange>& steps, const std::atomic<bool>& stop,
                            const Executor::OnStep& on_step);
  /// REQUIRES: a model of the plan has it.
  void run(Interlude interlude, const std::vector<StepRange>& steps, const std::atomic<bool>& stop);
  /// Executor::end_after() and end_soon() of training steps.
  void end_after(std::size_t model, std::int64_t step) { training_->end_after(model, step); }
  void end_soon(std::size_t model, std::int64_t step) { training_->end_soon(model, step); }

  /// Under all plans so far: bytes of all links are those of training steps; peaks include interludes.
  /// Between runs.
  Measurements measured() const;

  /// What each lane does at this moment: lines for a user. Any thread may call, also while the run hangs.
  std::vector<std::string> describe_lanes() const;
  /// What the training steps have come to so far. Any thread may call.
  LiveFigures live() const;

 private:
  Executor::Options options() const;
  Executor::RunResult run(Executor& executor, const std::vector<StepRange>& steps,
                          const std::atomic<bool>& stop, const Executor::OnStep& on_step);

  const Setup setup_;
  std::optional<StepRecorder> recorder_;  ///< if anything is recorded
  mutable std::mutex watching_;           ///< of what other threads than the run's look at
  std::optional<Executor> training_;
  OfInterludes<Executor> interludes_;
  const Executor* running_ = nullptr;
  // These sum up executors that are gone.
  LiveFigures lived_;
  Measurements measured_;
};

}  // namespace strata
