// Strata as a library: it plans and trains the model of a run file, and continues texts with a model. This
// header is all that a program includes. find_package(Strata) gives the target Strata::strata to link.
//
// A run file has the keys of `strata train`. A run of this library is one process and one model. It prints
// nothing. Each object is for one thread at a time.
//
// Errors have one sentence for a user. std::invalid_argument: a run file, a setting, or a file that it names
// is wrong. std::runtime_error: what was asked for failed; checkpoints that were saved before stay whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#define STRATA_API [[gnu::visibility("default")]]

namespace strata {

/// The most bytes that are used at one time.
struct MemoryPeaks {
  std::int64_t device = 0;
  std::int64_t host = 0;
  std::int64_t drives = 0;
};

struct RunPlan {
  MemoryPeaks memory;
  double step_seconds = 0;          ///< at most; by the profile in plan.machine, or by nominal rates
  std::int64_t tokens_of_step = 0;  ///< padding included
};

struct TrainedStep {
  std::int64_t number = 0;  ///< from 1
  double loss = 0;          ///< mean over the tokens that are trained on; NaN if the step has none
  double seconds = 0;
};

struct TrainOptions {
  bool fresh = false;  ///< set aside the checkpoints that are there, and begin anew
  /// Called behind each step by a thread of the run. If it returns false, the run saves and ends.
  std::function<bool(const TrainedStep&)> on_step = [](const TrainedStep&) { return true; };
  /// A sentence that a user should read. Threads of the run call it.
  std::function<void(const std::string&)> on_warning = [](const std::string&) {};
  /// A drive or a file server has not answered for train.watchdog seconds; the sentence says which. A thread
  /// of its own calls it. The wait cannot be ended, but the process can, by std::_Exit().
  std::function<void(const std::string&)> on_hang = [](const std::string&) {};
};

struct TrainedRun {
  std::int64_t steps = 0;   ///< of the model, with those before a resume
  bool is_complete = true;  ///< false: on_step ended it, or it ended itself before its last step
  std::string checkpoint;   ///< the newest one's folder; empty if the run saves none
  std::string state_hash;   ///< of weights and optimizer state: equal hashes mean equal bits
  MemoryPeaks memory;       ///< as measured
};

/// The run that a run file describes.
class STRATA_API Run {
 public:
  /// Reads the run file. `settings` override its keys: {"train.steps=20"}.
  explicit Run(const std::string& run_file, const std::vector<std::string>& settings = {});
  ~Run();
  Run(Run&&) noexcept;
  Run& operator=(Run&&) noexcept;

  /// Reads no data and touches no device. Throws std::invalid_argument if the budgets are too small.
  RunPlan plan() const;
  /// Trains up to train.steps, from the newest checkpoint in checkpoint.path if there is one.
  TrainedRun train(const TrainOptions& options = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct TextModelOptions {
  std::string adapter = {};    ///< a PEFT folder, or checkpoints of a run with adapters; empty: none
  std::string tokenizer = {};  ///< a model's folder, its tokenizer.json, or "bytes"; empty: the model's own
  std::string device = "cpu";  ///< or "cuda"
};

struct GenerateOptions {
  std::int64_t max_tokens = 256;
  double temperature = 0;  ///< 0: the likeliest token each time
  double top_p = 1;        ///< of the probability; 1: all
  std::int64_t top_k = 0;  ///< likeliest tokens to draw from; 0: all
  std::uint64_t seed = 0;
};

/// A model that continues texts.
class STRATA_API TextModel {
 public:
  /// `model` is a Hugging Face folder, a checkpoint, or a folder of checkpoints, whose newest is taken.
  explicit TextModel(const std::string& model, const TextModelOptions& options = {});
  ~TextModel();
  TextModel(TextModel&&) noexcept;
  TextModel& operator=(TextModel&&) noexcept;

  /// The text behind `prompt`, as UTF-8.
  std::string generate(const std::string& prompt, const GenerateOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata
