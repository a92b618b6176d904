// A whole training run: gives its programs their memory, fills in the initial state of its models, runs steps
// between validations, with checkpoints written beside them, and collects what the report shows. A run has
// one model, or several whose steps alternate in one program.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/place/plan.h"
#include "engine/run/execute/machine.h"
#include "engine/run/execute/model_run.h"
#include "engine/run/execute/plan_executors.h"

namespace strata {

struct RunConfig;

/// What a run of several models does with one that ends before others.
struct SeveralModels {
  /// By model.
  using Steps = std::vector<std::int64_t>;
  /// A plan for the models that have `remaining` steps, which leaves their state where it is. Null: the run
  /// keeps its plan. The result must live until the call after the next.
  std::function<const Plan*(const Steps& remaining)> replan = {};
  /// Called when all models have their state, and their folders are locked.
  std::function<void()> on_begin = {};
  /// Called when a model has ended; by then its files are on the disk.
  std::function<void(std::size_t model, const TrainResult& result)> on_end = {};
  /// Behind these steps, when all models that are under way are there, `choose` says why some end there,
  /// given what all models have come to; empty: it goes on.
  std::vector<std::int64_t> rung_steps = {};
  std::function<std::vector<std::string>(std::int64_t step, const std::vector<const TrainResult*>&)> choose =
      {};
};

class Trainer {
 public:
  struct Options {
    bool fresh = false;         ///< do not resume from checkpoint.path, but set aside what is there
    std::string run_file = {};  ///< by which checkpoints say whose they are; empty: they do not
    std::vector<std::string> layout = {};     ///< what plan.search chose, which checkpoints keep
    double watchdog_seconds = 900;            ///< a wait for the device longer than this fails the run
    IoFaults* faults = nullptr;               ///< of the nvme tier; tests only
    FileSystem* files = &FileSystem::real();  ///< of checkpoints
    std::vector<std::shared_ptr<const Companions>> companions = {};  ///< by model, for its checkpoints
    Communicator* world = nullptr;           ///< of a run of several ranks; outlives the trainer
    MakeDeviceGroup make_device_group = {};  ///< if the device exchanges values between ranks itself
    /// Called by the first lane that fails, before anything is unwound: that may wait for what is under way.
    std::function<void(const std::exception&)> on_failure = {};
    std::function<void(const Instruction&, Trainer&)> observer = {};  ///< serial mode, for tests
    std::vector<RoundListener*> recording = {};  ///< of training steps; outlive the trainer
    std::optional<SeveralModels> several = {};   ///< of a run that goes on when one of its models ends
  };

  /// A model of a run. REQUIRES: what is referred to outlives the trainer.
  struct ModelSetup {
    const RunConfig& config;
    const Model& model;
    TrainingData data;
  };

  /// The first model's config has what all models share: the drives, the device's limits, the lanes. With
  /// several ranks each calls it, with plans of one planner, and train() after it. REQUIRES: there is a
  /// model; all have a part in the plan; what is referred to outlives the trainer.
  Trainer(std::vector<ModelSetup> models, const Plan& plan, Device& device, Options options);

  /// Runs each model to its config's train.steps, or until `stop`; then saves if its checkpoint.path is given
  /// and the last step did not. A stop of one rank ends all, after the round that follows. Throws what the
  /// run threw: the last checkpoints stay whole. Other ranks may wait for this one until their watchdog ends
  /// it, or Communicator::abort(). `listeners` and results by model.
  std::vector<TrainResult> train(const std::atomic<bool>& stop, const std::vector<TrainListener*>& listeners);
  /// Trains the only model.
  TrainResult train(const std::atomic<bool>& stop, TrainListener& listener);

  /// What the programs did, of all models together: bytes of all links are those of training steps; peaks
  /// include interludes. After train().
  const Measurements& measured() const { return measured_; }
  /// The traffic that the plan has for the programs of all models together. After train().
  const Traffic& planned() const { return planned_; }

  /// What each lane of this rank does at this moment: lines for a user. Any thread may call, also while the
  /// run hangs.
  std::vector<std::string> describe_lanes() const { return executors_->describe_lanes(); }
  /// What the training steps have come to so far. Any thread may call.
  LiveFigures live() const { return executors_->live(); }

  /// Adds what the nvme tier can do, if the run uses it. Only before train().
  void measure_nvme(MachineRates& rates) { memory_->measure_nvme(rates); }
  /// One line about the nvme tier's files; empty if the run has none.
  std::string describe_nvme() const { return memory_->describe_nvme(); }
  /// How products are computed, if a table says so.
  const ChosenProducts& products() const { return products_; }

  /// For tests, while no lane runs.
  const RunMemory& memory() const { return *memory_; }
  RunState& state(std::size_t model = 0) { return models_[model]->state(); }

 private:
  void begin_models(const std::vector<TrainListener*>& listeners);
  void check_space();
  bool is_under_way(std::size_t model) const { return results_[model] == std::nullopt; }
  bool is_done() const;
  bool is_over() const;
  void run_steps();
  void note_step(std::size_t model, const StepReport& report);
  void note_ending(std::size_t model, const StepReport& report);
  void run_interludes();
  /// Which models it is due for; their steps.
  std::vector<StepRange> due(Interlude interlude) const;
  void validate();
  void take_samples();
  bool has_failed(std::size_t model) const;
  void agree();
  void save_what_is_due();
  bool waits_at_rung(std::size_t model) const;
  void choose();
  bool end_models();
  bool try_to_end(std::size_t model, bool others_go_on);
  void replan();
  /// What ranks do together they must begin and end together: a request alone stops nothing.
  bool stopped() const { return ranks_ ? stop_agreed_.load() : stop_->load(); }
  const std::atomic<bool>& executor_stop() const { return ranks_ ? never_ : *stop_; }
  void end_soon(std::size_t model, std::int64_t step);
  void count_planned();

  const RunConfig& run_;
  Options options_;
  ChosenProducts products_;
  std::optional<RunMemory> memory_;
  LaneStreams streams_;  ///< after the memory, which outlives what streams still do when a run has failed
  std::optional<Ranks> ranks_;
  ScratchUse scratch_;
  std::vector<std::unique_ptr<ModelRun>> models_;
  std::vector<std::optional<TrainResult>> results_;  ///< of models that have ended
  /// Why a model is to end before its last step.
  struct Ending {
    std::string why;
    bool is_saved = false;    ///< if it can be
    bool is_failure = false;  ///< its checkpoints cannot be written
  };
  std::vector<Ending> endings_;
  std::size_t rung_ = 0;  ///< the next
  std::optional<PlanExecutors> executors_;
  const std::atomic<bool>* stop_ = nullptr;  ///< of train()
  std::atomic<bool> stop_agreed_ = false;    ///< by all ranks
  std::vector<bool> due_to_save_;            ///< by model, as rank 0 found for all
  const std::atomic<bool> never_ = false;
  std::mutex listening_;  ///< one call at a time
  Measurements measured_;
  Traffic planned_;
  std::vector<std::int64_t> counted_steps_, counted_saves_;  ///< by model: what is in planned_
};

}  // namespace strata
