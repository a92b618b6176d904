// A whole training run: gives the plan its memory, fills in the initial state (a checkpoint, a HF folder, or
// random weights by seed), runs steps between validations and checkpoints, and collects what the report
// shows.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/data/batch_loader.h"
#include "engine/execute/executor.h"
#include "engine/execute/machine.h"
#include "engine/execute/run_state.h"

namespace strata {

struct ValidationPoint {
  std::int64_t step = 0;  ///< finished steps
  double loss = 0;
};

/// Everything a run leaves behind besides its files.
struct TrainResult {
  std::vector<StepReport> steps;
  std::vector<ValidationPoint> validation;
  Counters counters;
  double train_seconds = 0;  ///< of the steps alone, without validation and checkpoints
  Measurements measured;     ///< bytes of both links are those of training steps; peaks include validation
  std::string state_hash;
  bool interrupted = false;
};

/// What a user may want to see while the run goes on. Called from the run's threads, one call at a time.
class TrainListener {
 public:
  virtual ~TrainListener() = default;
  virtual void on_start(const std::string& /*where the state came from*/) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_validation(const ValidationPoint&) {}
  virtual void on_checkpoint(const std::string& /*path*/) {}
  virtual void on_warning(const std::string&) {}
};

/// Where a run's tokens come from. The functions are called from the read lane.
struct TrainingData {
  LoadMicrobatch training;
  LoadMicrobatch validation;  ///< its step is of no meaning
  std::function<nlohmann::json(std::int64_t step)>
      sampler;  ///< where sampling stands before a step, for checkpoints
};
/// `loader` must outlive the result.
TrainingData training_data(const BatchLoader& loader);

/// Threads of the optimizer on the host, and of the CPU device.
int host_threads(const RunConfig& config);

class Trainer {
 public:
  struct Options {
    bool fresh = false;             ///< do not resume from checkpoint.path
    double watchdog_seconds = 900;  ///< a wait longer than this fails the run
    IoFaults* faults = nullptr;     ///< of the nvme tier; tests only
    std::function<void(const Instruction&, Trainer&)> observer = {};  ///< serial mode, for tests
  };

  Trainer(const RunConfig& config, const Model& model, const Plan& plan, Device& device, TrainingData data,
          Options options);

  /// Runs to config.train.steps, or until `stop`; then saves if checkpoint.path is given. Throws what the run
  /// threw: the last checkpoint stays whole.
  TrainResult train(const std::atomic<bool>& stop, TrainListener& listener);

  /// Adds what the nvme tier can do, where the run uses it. Only before train().
  void measure_nvme(MachineRates& rates) { state_.measure_nvme(rates); }
  /// One line about the nvme tier's files; empty where the run has none.
  std::string describe_nvme() const { return state_.describe_nvme(); }

  /// For tests, while no lane runs.
  RunState& state() { return state_; }

 private:
  void make_state(TrainListener& listener);
  bool resume(TrainListener& listener);
  void initialise_weights(TrainListener& listener);
  void run_steps(std::int64_t until, const std::atomic<bool>& stop, TrainListener& listener);
  void validate(const std::atomic<bool>& stop, TrainListener& listener);
  void save(TrainListener& listener);
  std::int64_t next_pause();

  const RunConfig& config_;
  const Model& model_;
  const Plan& plan_;
  TrainingData data_;
  Options options_;
  RunState state_;
  LaneStreams streams_;  ///< after the memory, which outlives what streams still do when a run has failed
  std::optional<CheckpointStore> checkpoints_;
  std::optional<Operations> training_operations_, validation_operations_;
  std::optional<Executor> training_, validation_;
  TrainResult result_;
  std::int64_t saved_step_ = -1;  ///< of the newest checkpoint
};

}  // namespace strata
