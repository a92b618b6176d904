// The checkpoint that a program's save instructions write, unit by unit as each is updated, while other lanes
// go on with the next step. Used by the save lane alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/input/data/training_data.h"
#include "engine/plan/program/program.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "engine/run/execute/data_settings.h"
#include "engine/run/execute/device_copy.h"
#include "optim/counters.h"
#include "optim/stored_values.h"

namespace strata {

struct RunConfig;

/// What changes bits and was chosen before the run was planned: a run that goes on keeps it.
struct ChosenOnce {
  Precision precision = {};              ///< what the run computes in
  std::vector<std::string> layout = {};  ///< what plan.search chose: "key=value"
  std::int64_t ranks = 1;                ///< of the run
  nlohmann::json schedule = {};          ///< schedule_json()
  DataSettings data = {};                ///< data_settings()
};
/// The learning rate's schedule as checkpoints keep it: lr, the keys of optimizer.schedule that its type
/// reads, and the run's steps.
nlohmann::json schedule_json(const RunConfig& config);
ChosenOnce chosen_once(const RunConfig& config, const Precision& precision,
                       const std::vector<std::string>& layout);

Progress progress_of(const StepRecord& record, const SamplerPosition& sampler, const ChosenOnce& chosen);

class StateSaver {
 public:
  struct Setup {
    CheckpointStore* store;
    const Model* model;
    const Program* program;          ///< whose save instructions give the order of units
    std::unique_ptr<Stream> stream;  ///< of the device
    double watchdog_seconds;         ///< a copy from the device takes no longer
    std::function<FlatRange(std::size_t unit, Flat flat)> held;  ///< what this rank has of a unit
    std::function<FlatRange(std::size_t unit, Flat flat)>
        saved;  ///< and what of that it saves: StateAccess::saved
    SamplerPosition sampler;
    ChosenOnce chosen;
    std::function<void(std::int64_t step)> on_saved;  ///< the checkpoint after `step` steps is whole
    std::function<void(const std::string& sentence)> on_lack_of_space;  ///< it is gone, and the run goes on
    /// If given, what else fails is told by it, once, and nothing is saved from then on; otherwise it is
    /// thrown.
    std::function<void(const std::string& sentence)> on_failure = {};
  };
  explicit StateSaver(Setup setup);

  /// The state after `step` steps; `stored` is a piece of what this rank holds of the unit, the next one. A
  /// step's first part begins the checkpoint, so that nobody waits for its files before. One that finds no
  /// space is given up, by all ranks; other failures end the run.
  void add(std::int64_t step, std::size_t unit, const Piece& piece, StateKey key, const StoredValues& stored);
  void set_record(const StepRecord& record) { record_ = record; }
  void finish();

  /// Brings device memory to the host; it is there when the call returns.
  void copy(std::byte* host, const std::byte* device, const Buffer& from) {
    copy_.to_host(host, device, from.bytes, *from.name);
  }

 private:
  template <typename Action>
  void try_to(const Action& action);

  Setup setup_;
  SaveOrder units_;
  DeviceCopy copy_;
  StepRecord record_;
  std::vector<float> piece_;  ///< of values that are not stored as floats, on their way to the file
  std::unique_ptr<CheckpointWriter> checkpoint_;  ///< between a step's first part and its end
  std::string lack_of_space_;                     ///< why it could not begin
  bool has_failed_ = false;
};

}  // namespace strata
