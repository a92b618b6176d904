// A tiny run on a corpus of its own: what the trainer's and executor's tests share.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "collectives/threads_communicator.h"
#include "engine/config/run_config.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/plan/place/plan_request.h"
#include "engine/run/execute/trainer.h"
#include "tests/base/temporary_folder.h"

namespace strata::test {

/// A run file's values: a small Llama on some kilobytes of text in `folder`.
RunConfig tiny_run(const std::filesystem::path& folder);
/// The whole model of a run file without model.path.
Model model_of(const RunConfig& config);
/// The same as `rank` has it.
Model model_of_rank(const RunConfig& config, std::int64_t rank);

/// What a run reads of a loader, which outlives it, and the prompts of its samples.
TrainingData data_of(const RunConfig& config, const Model& model, const BatchLoader& loader);

/// Strategy::piece_bytes of runs with drives: each part of a tiny unit has 16 to 32 KiB, so it is in pieces.
inline constexpr Bytes kTinyPiece = 8 * KiB;

class PartsOfRanks;

struct RunOptions {
  Bytes piece_bytes = kTinyPiece;
  SearchEffort effort = SearchEffort::first_placement;
  PartsOfRanks* parts = nullptr;  ///< of a run of several ranks
  int device_threads = 2;
  LinkLimit link = {};
  Device* device = nullptr;  ///< instead of a CPU device of these threads and this link
  bool fresh = false;
  std::function<void(const Instruction&, Trainer&)> observer = {};
  double watchdog_seconds = 900;
  IoFaults* faults = nullptr;               ///< of the nvme tier
  FileSystem* files = &FileSystem::real();  ///< of checkpoints
  const std::atomic<bool>* stop = nullptr;
  TrainListener* listener = nullptr;
  Communicator* world = nullptr;
  MakeDeviceGroup make_device_group = {};
  std::function<void(const std::exception&)> on_failure = {};
  std::function<void(Plan&)> change_plan = {};  ///< before it is run
  std::vector<RoundListener*> recording = {};
};

/// Asks for a stop once a number of steps was reported.
class StopAfter : public TrainListener {
 public:
  StopAfter(std::int64_t steps, std::atomic<bool>& stop) : steps_(steps), stop_(stop) {}
  void on_step(const StepReport& report) override {
    if (report.step + 1 == steps_) stop_ = true;
  }

 private:
  std::int64_t steps_;
  std::atomic<bool>& stop_;
};

/// Keeps what a run warns of.
class Warnings : public TrainListener {
 public:
  void on_warning(const std::string& sentence) override { all_.push_back(sentence); }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

struct RunOutcome {
  Plan plan;
  TrainResult result;
};
RunOutcome run(const RunConfig& config, const RunOptions& options = {});

/// Runs of two ranks that share batches, layers, layers and tokens, a pipeline, and sequences.
std::vector<RunConfig> shared_by_two_ranks(const RunConfig& alone);
/// "data 1, tensor 2, pipeline 1, context 1".
std::string layout_of(const RunConfig& config);

/// The same run on several ranks, which are threads, and of a pipeline if it has one: what each leaves.
/// `options` may differ by rank. If some fail, what the first of them threw.
std::vector<RunOutcome> run_ranks(
    RunConfig config, int ranks,
    const std::function<RunOptions(int rank)>& options = [](int) { return RunOptions{}; },
    const ThreadCommunicatorOptions& communicators = {});

/// Calls run(rank, world) on threads that are ranks. If some throw, what the first of them threw.
void on_ranks(int ranks, const std::function<void(int rank, Communicator& world)>& run,
              const ThreadCommunicatorOptions& communicators = {});

using Tensors = std::map<std::string, std::vector<float>>;
/// What a run leaves of these kinds, as fp32: "model.norm.weight master". It has a CPU if no device is given.
Tensors left_by(const RunConfig& config, const std::vector<StateKey>& kinds, Device* device = nullptr);
/// By tensor: the norm of the difference over that of what was expected.
std::map<std::string, double> relative_differences(const Tensors& expected, const Tensors& found);
bool has_same_bits(const std::vector<float>& a, const std::vector<float>& b);

/// Measured peaks and copied bytes of a whole run are those of its plan.
void expect_the_plan_was_exact(const RunOutcome& outcome);

/// Arena size of a run whose device budget never binds.
Bytes resident_bytes(RunConfig config);
/// The plans that run() trains by, of each stage, and the first stage's. By the rates of this machine. What
/// is run here takes no time worth a search, so it takes the first plan that fits.
std::vector<Plan> make_plans(const RunConfig& config, const Model& model, Bytes piece_bytes = kTinyPiece,
                             SearchEffort effort = SearchEffort::first_placement);
Plan make_plan(const RunConfig& config, const Model& model, Bytes piece_bytes = kTinyPiece,
               SearchEffort effort = SearchEffort::first_placement);
/// The budget that the refusal of a run names.
Bytes named_budget(const RunConfig& config, Bytes piece_bytes = kTinyPiece);
/// The smallest device budget of a run.
Bytes smallest_bytes(RunConfig config);
/// The smallest host budget of a run that spills.
Bytes smallest_host_bytes(RunConfig config, Bytes piece_bytes = kTinyPiece);

}  // namespace strata::test
