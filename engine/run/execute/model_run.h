// One model of a run: its state in the run's memory, what its instructions do, its checkpoints, and how far
// it has come. A run has one model, or several whose steps alternate.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/input/data/training_data.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "engine/run/execute/choose_products.h"
#include "engine/run/execute/executor.h"
#include "engine/run/execute/ranks.h"
#include "engine/run/execute/run_memory.h"
#include "engine/run/execute/run_state.h"
#include "engine/run/execute/state_saver.h"

namespace strata {

struct RunConfig;

struct ValidationPoint {
  std::int64_t step = 0;  ///< finished steps
  double loss = 0;
  bool has_loss = true;                     ///< as of a step
  std::optional<double> lowered_rate = {};  ///< the learning rate from here on, if this has lowered it
};

/// What the run's prompts were gone on with.
struct SamplePoint {
  std::int64_t step = 0;  ///< finished steps
  double seconds = 0;     ///< until the last sample of all models ended
  std::vector<Sample> samples;
  bool is_of_random_weights = false;  ///< nothing that the model says then means anything
};

/// Samples that are being taken.
struct SamplingProgress {
  std::int64_t step = 0;    ///< finished steps
  std::int64_t tokens = 0;  ///< that each has got, but for those that ended
  std::int64_t samples = 0, ended = 0;
};

/// What kernels set up besides the plan's memory.
struct ScratchUse {
  std::vector<ScratchPart> planned;
  Bytes measured_bytes = 0;  ///< what they hold at the end; it never shrinks
};

/// Everything a model leaves behind besides its files.
struct TrainResult {
  std::vector<StepReport> steps;
  std::vector<ValidationPoint> validation;
  std::vector<SamplePoint> samples;
  Counters counters;
  std::int64_t saves = 0;  ///< checkpoints that steps wrote
  Measurements measured;   ///< of all models: bytes of links are of training steps; peaks include interludes
  ScratchUse scratch;      ///< of all models
  std::vector<std::string> slow_paths = {};  ///< of the device
  ChosenProducts products = {};              ///< of all models
  std::string state_hash;
  std::string checkpoint = {};  ///< the newest that is whole, if the run saves any
  bool interrupted = false;
  std::string ended = {};   ///< why before its last step, though nobody stopped the run
  bool has_failed = false;  ///< that is because it could not be saved
};

/// How many of the latest steps tell what the loss is: more than one does.
constexpr std::int64_t kStepsOfLoss = 10;
/// Their mean loss, without those that have none; nothing if none has.
std::optional<double> recent_loss(const TrainResult& result);

/// Whether no step of the model updated anything, those before this process included.
bool updated_nothing(const TrainResult& result);

/// What a user may want to see while the run goes on. Called from the run's threads, one call at a time.
class TrainListener {
 public:
  virtual ~TrainListener() = default;
  virtual void on_start(const std::string& /*where the state came from*/) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_validation(const ValidationPoint&) {}
  virtual void on_sampling(const SamplingProgress&) {}
  virtual void on_samples(const SamplePoint&) {}
  virtual void on_checkpoint(const std::string& /*path*/) {}
  /// From now on a run that is ended goes on from this step: its checkpoint is whole.
  virtual void on_safe_step(std::int64_t /*step*/) {}
  virtual void on_warning(const std::string&) {}
};

/// Threads of the optimizer on the host, and of the CPU device: train.threads, or one per core. With a GPU
/// two cores are left to the threads that issue its work.
int host_threads(const RunConfig& config);

class ModelRun {
 public:
  /// REQUIRES: what is referred to outlives the model's run.
  struct Setup {
    const RunConfig& config;
    const Model& model;
    TrainingData data;
    bool fresh = false;         ///< does not resume from checkpoint.path, and sets aside what is there
    std::string run_file = {};  ///< by which its checkpoints say whose they are
    std::vector<std::string> layout = {};  ///< Trainer::Options::layout
    double watchdog_seconds = 900;
    FileSystem* files = &FileSystem::real();
    std::shared_ptr<const Companions> companions = {};  ///< what its checkpoints have beside its state
    Device& device;
    const LaneStreams& streams;
    RunMemory& memory;
    Ranks* ranks = nullptr;
    std::mutex& listening;  ///< one call of any listener at a time
    /// If there are several ranks, whether this one is asked to stop, and what is done once all know of it.
    std::function<bool()> stop_requested = {};
    std::function<void(std::int64_t step)> on_stop_agreed = {};
    std::vector<std::int64_t> pauses = {};  ///< steps, rising, behind which something is to be done
    /// What fails of its checkpoints ends it and not the run, which is told by this, on the lane that saves.
    bool ends_alone = false;
  };
  ModelRun(Setup setup, const ModelPlan& plan);

  /// Goes on with another plan that has its state in the same places.
  void replan(const ModelPlan& plan);

  Operations& training() { return *training_; }
  /// Null if the model has no such interlude.
  Operations* interlude(Interlude interlude);
  RunState& state() { return *state_; }
  const ModelPlan& plan() const { return *plan_; }
  const Model& model() const { return setup_.model; }
  const RunConfig& config() const { return setup_.config; }
  const Counters& counters() const { return training_->counters(); }
  SaveSchedule saves() const;

  /// Locks the checkpoints' folder and fills in the state: from a checkpoint, a HF folder, or random weights
  /// by seed. All else comes after it.
  void begin(TrainListener& listener);
  /// What its checkpoints will take, as rank 0 knows; nothing if it saves none.
  std::optional<SpaceNeed> space_needed();

  /// The steps until something is to be done between steps, or the model is trained.
  StepRange next_steps() const;
  bool is_trained() const { return remaining_steps() <= 0; }
  std::int64_t remaining_steps() const;
  void note_step(const StepReport& report);
  /// Whether roll_back() is due, since the steps up to the latest were spikes (train.spike.roll_back).
  bool is_to_roll_back() const { return spikes_.has_value(); }
  /// Goes back to the newest checkpoint from before the spikes, and on behind the data of the last of them.
  /// Without such a checkpoint it warns. Returns why the run ends, if it has gone back there too often.
  std::string roll_back();
  /// Tells how long what was left of the latest step took, with nothing to run under.
  void note_drain(double seconds);

  /// The latest steps that updated nothing, if there is none behind them that did. Of the lane cpu.
  std::int64_t skipped_in_a_row() const { return skipped_in_a_row_; }

  /// Why its checkpoints cannot be written, if they cannot: that ends it. Any thread may ask.
  std::string failure();

  /// Whether the interlude is due for the state as it is, and was not yet.
  bool wants(Interlude interlude) const;
  void note_validation();
  /// Each round of the interlude goes on with all of them.
  Samples& samples() { return *samples_; }
  void note_sampling(std::int64_t tokens);
  void note_samples(double seconds);

  void warn(const std::string& sentence);

  /// Saves if checkpoint.path is given and the last step did not. If the disk is full, waits for space until
  /// `stop` becomes true once more; or does not wait, warns and returns false.
  bool save(const std::atomic<bool>& stop, bool waits = true);
  /// Whether checkpoint.every_minutes have passed since the latest save. Any thread may ask.
  bool save_is_due() const;
  /// Saves a state that is not saved yet, while the run goes on. If the disk is full, warns, and is due again
  /// when as much time has passed.
  void save_between_steps();
  /// What the model leaves, without the figures of the run.
  TrainResult& finish();
  const TrainResult& result() const { return result_; }

 private:
  void place();
  void write_checkpoint();
  std::int64_t step() const { return training_->counters().step; }
  int rank() const { return setup_.ranks == nullptr ? 0 : setup_.ranks->rank(); }
  Communicator* outside() const { return setup_.ranks == nullptr ? nullptr : &setup_.ranks->outside(); }
  Operations::Setup operations(const PlannedProgram& program, const LoadMicrobatch& load,
                               std::int64_t microbatches);
  Operations::Setup interlude_operations(Interlude interlude, const PlannedProgram& program);
  StateSaver::Setup saver();
  TrainingData behind_passed_over(TrainingData data);
  void make_state();
  std::optional<double> lower_rate(const ValidationPoint& point);
  bool resume();
  void take_up(const Progress& progress);
  void warn_of_data(const Progress& saved, bool is_same_position);
  void warn_of_schedule(nlohmann::json saved);
  void initialise_weights();
  void note_saved(std::int64_t step);
  void warn_of_lack(const std::string& sentence);
  /// What the checkpoints met, by the thread that uses them.
  void say_warnings();
  /// Each once.
  void say_slow_paths();

  Setup setup_;
  const ModelPlan* plan_;
  std::optional<RunState> state_;
  std::shared_ptr<const UnitCompute> compute_, sampling_compute_;
  std::vector<UnitShare> shares_;  ///< this rank's
  std::optional<CheckpointStore> checkpoints_;
  std::optional<StateSaver> saver_;  ///< if steps save
  std::optional<Samples> samples_;   ///< if it takes any
  std::optional<Operations> training_;
  OfInterludes<Operations> interludes_;
  TrainListener* listener_ = nullptr;  ///< of begin()
  TrainResult result_;
  std::int64_t saved_step_ = -1;                         ///< of the newest checkpoint
  std::chrono::steady_clock::time_point tried_to_save_;  ///< under setup_.listening
  std::int64_t skipped_in_a_row_ = 0;
  std::optional<StepReport> spikes_;  ///< the last of those that the run is to go back for
  std::int64_t rolled_back_to_ = -1;  ///< the step that the run has gone back to last, this number of times:
  std::int64_t times_rolled_back_ = 0;
  std::size_t said_slow_paths_ = 0;
  std::string failure_;  ///< under setup_.listening
};

}  // namespace strata
