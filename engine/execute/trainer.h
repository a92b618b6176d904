// A whole training run: gives the plan its memory, fills in the initial state (a checkpoint, a HF folder, or
// random weights by seed), runs steps between validations, with checkpoints written beside them, and collects
// what the report shows.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/data/training_data.h"
#include "engine/execute/executor.h"
#include "engine/execute/machine.h"
#include "engine/execute/run_state.h"
#include "engine/execute/state_saver.h"

namespace strata {

struct ValidationPoint {
  std::int64_t step = 0;  ///< finished steps
  double loss = 0;
};

/// What kernels set up besides the plan's memory.
struct ScratchUse {
  std::vector<ScratchPart> planned;
  Bytes measured_bytes = 0;  ///< what they hold at the end; it never shrinks
};

/// Everything a run leaves behind besides its files.
struct TrainResult {
  std::vector<StepReport> steps;
  std::vector<ValidationPoint> validation;
  Counters counters;
  std::int64_t saves = 0;  ///< checkpoints that steps wrote
  Measurements measured;   ///< bytes of all links are those of training steps; peaks include validation
  ScratchUse scratch;
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
  /// From now on a run that is ended goes on from this step: its checkpoint is whole.
  virtual void on_safe_step(std::int64_t /*step*/) {}
  virtual void on_warning(const std::string&) {}
};

/// Threads of the optimizer on the host, and of the CPU device.
int host_threads(const RunConfig& config);

class Trainer {
 public:
  struct Options {
    bool fresh = false;                       ///< do not resume from checkpoint.path
    double watchdog_seconds = 900;            ///< a wait for the device longer than this fails the run
    IoFaults* faults = nullptr;               ///< of the nvme tier; tests only
    FileSystem* files = &FileSystem::real();  ///< of checkpoints
    Communicator* world = nullptr;            ///< of a run of several ranks; outlives the trainer
    MakeDeviceGroup make_device_group = {};   ///< if the device exchanges values between ranks itself
    /// Called by the first lane that fails, before anything is unwound: that may wait for what is under way.
    std::function<void(const std::exception&)> on_failure = {};
    std::function<void(const Instruction&, Trainer&)> observer = {};  ///< serial mode, for tests
  };

  /// With several ranks each calls it, with equal plans, and train() after it.
  Trainer(const RunConfig& config, const Model& model, const Plan& plan, Device& device, TrainingData data,
          Options options);

  /// Runs to config.train.steps, or until `stop`; then saves if checkpoint.path is given and the last step
  /// did not. A stop of one rank ends all, after the step that follows. Throws what the run threw: the last
  /// checkpoint stays whole. Other ranks may wait for this one until their watchdog ends it, or
  /// Communicator::abort().
  TrainResult train(const std::atomic<bool>& stop, TrainListener& listener);

  /// Adds what the nvme tier can do, if the run uses it. Only before train().
  void measure_nvme(MachineRates& rates) { state_->measure_nvme(rates); }
  /// One line about the nvme tier's files; empty if the run has none.
  std::string describe_nvme() const { return state_->describe_nvme(); }

  /// For tests, while no lane runs.
  RunState& state() { return *state_; }

 private:
  void make_state(TrainListener& listener);
  bool resume(TrainListener& listener);
  void initialise_weights(TrainListener& listener);
  void run_steps(std::int64_t until, TrainListener& listener);
  void validate(TrainListener& listener);
  /// What ranks do together they must begin and end together: a request alone stops nothing.
  bool stopped() const { return ranks_ ? stop_agreed_.load() : stop_->load(); }
  const std::atomic<bool>& executor_stop() const { return ranks_ ? never_ : *stop_; }
  void agree_to_stop(std::int64_t step);
  int rank() const { return ranks_ ? ranks_->rank() : 0; }
  Communicator* outside() { return ranks_ ? &ranks_->outside() : nullptr; }
  void save(TrainListener& listener);
  void check_space(TrainListener& listener);
  void note_saved(std::int64_t step, TrainListener& listener);
  void warn(const std::string& sentence, TrainListener& listener);
  /// What the checkpoints met, by the thread that uses them.
  void say_warnings(TrainListener& listener);

  const RunConfig& config_;
  const Model& model_;
  const Plan& plan_;
  TrainingData data_;
  Options options_;
  std::optional<RunState> state_;
  LaneStreams streams_;  ///< after the memory, which outlives what streams still do when a run has failed
  std::optional<Ranks> ranks_;
  std::shared_ptr<const UnitCompute> compute_;
  std::vector<UnitShare> shares_;  ///< this rank's
  std::optional<CheckpointStore> checkpoints_;
  std::optional<StateSaver> saver_;  ///< if steps save
  std::optional<Operations> training_operations_, validation_operations_;
  std::optional<Executor> training_, validation_;
  const std::atomic<bool>* stop_ = nullptr;  ///< of train()
  std::atomic<bool> stop_agreed_ = false;    ///< by all ranks
  const std::atomic<bool> never_ = false;
  TrainListener* listener_ = nullptr;  ///< of train()
  std::mutex listening_;               ///< one call at a time
  TrainResult result_;
  std::int64_t saved_step_ = -1;  ///< of the newest checkpoint
};

}  // namespace strata
