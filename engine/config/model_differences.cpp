// What the models of a run differ in.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "engine/config/loaded_model.h"
#include "engine/config/model_names.h"
#include "engine/config/run_config.h"
#include "engine/config/value.h"

namespace strata {
namespace {

constexpr std::string_view kModelConfig = "model.config";

/// Values as YAML flow text, by path of their keys; a key that has none is not there.
using Values = std::map<std::string, std::string>;

/// Paths are of whole keys, but in model.config of those within it where all of them have one.
class Differences {
 public:
  Differences(const std::vector<LoadedModel>& models, const RunModels& run) : run_(run) {
    divides_model_config_ = std::ranges::all_of(models, [](const LoadedModel& model) {
      return std::ranges::all_of(model.model.config.model.config.items(), [](const auto& item) {
        return !item.key().empty() && item.key().find('.') == std::string::npos;
      });
    });
    values_.reserve(models.size());
    for (const LoadedModel& model : models) values_.push_back(values_of(model.model));
    keep_what_differs();
    order(models);
  }

  std::vector<std::pair<std::string, std::string>> of_model(std::size_t model) const {
    std::vector<std::pair<std::string, std::string>> result(values_[model].begin(), values_[model].end());
    std::ranges::sort(result, {}, [&](const auto& value) { return ranks_.at(value.first); });
    return result;
  }

 private:
  Values values_of(const NamedRun& model) const {
    Values values;
    const RunConfig& config = model.config;
    for (const Key& key : config_keys()) {
      if (key.path == "checkpoint.path") {
        add_own(values, key, config, config.checkpoint.path,
                folder_of_model(run_.checkpoint_path, model.name));
      } else if (key.path == "report.metrics") {
        add_own(values, key, config, config.report.metrics, file_of_model(run_.metrics, model.name));
      } else if (key.path == "report.tensorboard") {
        add_own(values, key, config, config.report.tensorboard,
                folder_of_model(run_.tensorboard, model.name));
      } else if (key.path == kModelConfig && divides_model_config_) {
        for (const auto& [name, value] : config.model.config.items())
          values.emplace(path_in_model_config(name), value.dump());
      } else if (std::string value = key.get(config); !value.empty()) {
        values.emplace(key.path, std::move(value));
      }
    }
    return values;
  }

  static std::string path_in_model_config(const std::string& name) {
    return std::string(kModelConfig) + "." + name;
  }

  /// A path, if it is not the one that the model has from the run.
  static void add_own(Values& values, const Key& key, const RunConfig& config, const std::string& path,
                      const std::string& from_run) {
    if (path == from_run) return;
    const std::string value = key.get(config);
    values.emplace(key.path, value.empty() ? "\"\"" : value);
  }

  void keep_what_differs() {
    struct Seen {
      std::size_t models = 0;
      const std::string* first = nullptr;
      bool differs = false;
    };
    std::map<std::string, Seen> seen;
    for (const Values& values : values_) {
      for (const auto& [path, value] : values) {
        Seen& of_path = seen[path];
        ++of_path.models;
        if (of_path.first == nullptr) of_path.first = &value;
        of_path.differs = of_path.differs || *of_path.first != value;
      }
    }
    std::set<std::string> equal;
    for (const auto& [path, of_path] : seen) {
      if (of_path.models == values_.size() && !of_path.differs && !is_path_of_model(path)) equal.insert(path);
    }
    for (Values& values : values_)
      std::erase_if(values, [&](const auto& value) { return equal.contains(value.first); });
  }

  static bool is_path_of_model(const std::string& path) {
    return path == "checkpoint.path" || path == "report.metrics" || path == "report.tensorboard";
  }

  /// Ranks paths as models give them first; behind them those that only the run file gives, which a model of
  /// another file lacks. Such that the dump, in which each model gives all that it differs in, has this
  /// order.
  void order(const std::vector<LoadedModel>& models) {
    std::map<std::string, std::size_t> given;
    for (std::size_t i = 0; i < models.size(); ++i) {
      for (const Given& key : models[i].given) {
        if (key.origin == Origin::run || key.origin == Origin::command) continue;
        for_each_path_of(key, values_[i],
                         [&](const std::string& path) { given.emplace(path, given.size()); });
      }
    }
    for (const Key& key : config_keys()) {
      for (const Values& values : values_)
        for_each_path_of({key.path, key.path, "", Origin::run}, values,
                         [&](const std::string& path) { given.emplace(path, given.size()); });
    }
    for (const Values& values : values_) {
      std::vector<std::pair<std::size_t, const std::string*>> paths;
      paths.reserve(values.size());
      for (const auto& [path, value] : values) paths.emplace_back(given.at(path), &path);
      std::ranges::sort(paths);
      for (const auto& [rank, path] : paths) ranks_.emplace(*path, ranks_.size());
    }
  }

  /// The paths of the model's values that a key gave: several if it gave the whole of model.config.
  template <typename Visit>
  void for_each_path_of(const Given& key, const Values& values, const Visit& visit) const {
    if (key.key != kModelConfig || !divides_model_config_) {
      if (values.contains(key.key)) visit(key.key);
    } else if (key.path != key.key) {
      const std::string path = key.path.substr(0, key.path.find('.', kModelConfig.size() + 1));
      if (values.contains(path)) visit(path);
    } else {
      const std::string begin = path_in_model_config("");
      for (auto value = values.lower_bound(begin); value != values.end() && value->first.starts_with(begin);
           ++value)
        visit(value->first);
    }
  }

  const RunModels& run_;
  bool divides_model_config_ = true;
  std::vector<Values> values_;                ///< of each model, in the end only what differs
  std::map<std::string, std::size_t> ranks_;  ///< of all paths that differ
};

}  // namespace

void add_overrides(std::vector<LoadedModel>& models, const RunModels& run) {
  const Differences differences(models, run);
  for (std::size_t i = 0; i < models.size(); ++i) models[i].model.overrides = differences.of_model(i);
}

}  // namespace strata
