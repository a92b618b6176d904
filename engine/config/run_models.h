// A run file as the models that it trains: one, or several by `models` and `sweep`. Everything that trains or
// plans a run starts here. What is wrong becomes one ConfigError, as in load.h. Pure functions of their input
// and of the run files that it names.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/load.h"
#include "engine/config/run_config.h"
#include "engine/config/selection.h"

namespace strata {

/// One model of a run.
struct NamedRun {
  std::string name;  ///< its own among the run's and fit for a file's name; empty if there is no other
  /// In which keys it differs from another model, in the order in which the file gives them: path of the key
  /// ("optimizer.lr", "model.config.n_layer") and its value as YAML flow text. A key that has no value in
  /// this model is not there.
  std::vector<std::pair<std::string, std::string>> overrides;
  RunConfig config;
  friend bool operator==(const NamedRun&, const NamedRun&) = default;
};

struct RunModels {
  std::vector<NamedRun> models;
  Selection select;
  bool is_several = false;      ///< the file has `models` or `sweep`, if only for one model
  std::string checkpoint_path;  ///< the run's folder, or empty; models' own are in their configs
  std::string metrics;          ///< the run's file, or empty
  std::string tensorboard;      ///< the run's folder, in which models have theirs, or empty
  friend bool operator==(const RunModels&, const RunModels&) = default;
};

constexpr std::int64_t kMostModels = 1000;

/// Reads the run file at `path` with `overrides`, as load_run_config() does, which count for every model.
/// Throws ConfigError.
RunModels load_run_models(const std::string& path, const std::vector<std::string>& overrides = {},
                          std::int64_t ranks = 1);

/// The same from the file's text; `name` stands for the file in errors, and `read` gives the text of each run
/// file that it names.
RunModels parse_run_models(std::string_view text, const std::string& name,
                           const std::vector<std::string>& overrides = {}, std::int64_t ranks = 1,
                           const std::function<std::string(const std::string&)>& read = read_run_file);

/// The full effective run file: parse_run_models(dump(r)) == r, unless r's models make it longer than a run
/// file may be. dump(RunConfig) of a single model.
std::string dump(const RunModels& run);

}  // namespace strata
