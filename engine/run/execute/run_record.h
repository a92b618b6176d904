// What a run of several models has decided and reached, in a file of its folder. So models that have ended
// are not trained again, nor even read. A rung's decision is on the disk before it acts. Plain values; one
// thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/run/execute/model_run.h"

namespace strata {

/// What a model that has ended has come to.
struct RecordedModel {
  std::int64_t steps = 0;  ///< that the run file asked for
  std::int64_t step = 0;   ///< finished ones
  std::string ended;       ///< why before its last step; empty: it was trained
  std::string state_hash;
  std::optional<double> loss = {};  ///< unknown if it had all its steps from a checkpoint
  std::optional<double> validation_loss = {};
  std::int64_t skipped = 0, saves = 0;
  friend bool operator==(const RecordedModel&, const RecordedModel&) = default;
};

struct RunRecord {
  std::string run_file = {};  ///< its path from the run's folder on; older records do not say it
  std::map<std::string, RecordedModel> models;  ///< by name
  std::string best = {};  ///< name of the first of the leaderboard; empty until the run has one
  /// By the step of a rung: who ended there, and why.
  std::map<std::int64_t, std::map<std::string, std::string>> rungs;
  /// By the step of a rung: the training losses of models that were there, which no checkpoint has.
  std::map<std::int64_t, std::map<std::string, double>> losses;
  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

RecordedModel recorded(const TrainResult& result, std::int64_t steps);
/// The model's result as far as it was recorded.
TrainResult result_of(const RecordedModel& model);

std::string to_text(const RunRecord& record);
/// Throws ConfigError that names `where` if the text is no record.
RunRecord parse_run_record(const std::string& text, const std::string& where);

/// Where the record of a run is that has this folder.
std::filesystem::path run_record_in(const std::filesystem::path& folder);
/// The record in a run's folder; an empty one if there is none. Throws IoError, or ConfigError if it is no
/// record.
RunRecord load_run_record(const std::filesystem::path& folder, FileSystem& files = FileSystem::real());
/// Renames the record so that it is kept and not read; nothing if there is none. Throws IoError.
void set_aside_run_record(const std::filesystem::path& folder, FileSystem& files = FileSystem::real());
/// Replaces it at once: a crash leaves the one or the other. Makes the folder. Throws IoError.
void store_run_record(const RunRecord& record, const std::filesystem::path& folder,
                      FileSystem& files = FileSystem::real());

}  // namespace strata
