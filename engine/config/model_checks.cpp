// What models of a run must have in common, and what they must not.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "engine/config/loaded_model.h"
#include "engine/config/model_names.h"
#include "engine/config/run_config.h"

namespace strata {
namespace {

class ModelChecks {
 public:
  ModelChecks(const std::vector<LoadedModel>& models, const Loader& run) : models_(models), run_(run) {}

  void check() const {
    check_names();
    check_ranks();
    check_schedules();
    check_paths("checkpoint.path", "folder", run_.config().checkpoint.path,
                [](const RunConfig& config) { return config.checkpoint.path; });
    check_paths("report.metrics", "file", run_.config().report.metrics,
                [](const RunConfig& config) { return config.report.metrics; });
    check_paths("report.tensorboard", "folder", run_.config().report.tensorboard,
                [](const RunConfig& config) { return config.report.tensorboard; });
    check_selection();
  }

 private:
  /// Where the model has the key from.
  std::string place(const LoadedModel& model, const std::string& key) const {
    const Given* given = last_given(model.given, key);
    return given == nullptr ? run_.place() : given->place;
  }

  /// Where the run's models are listed.
  std::string place_of_list() const {
    const GivenToRun* models = run_.find_of_run("models");
    return (models == nullptr ? run_.find_of_run("sweep") : models)->place;
  }

  void check_names() const {
    std::map<std::string, std::size_t> numbers;
    for (std::size_t number = 1; number <= models_.size(); ++number) {
      const std::string& name = models_[number - 1].model.name;
      if (const std::string problem = check_name(name); !problem.empty()) {
        fail(place_of_list(), fmt::format("the name of model {}, '{:.120}', {}: give it a name: in models",
                                          number, name, problem));
      }
      const auto [other, is_new] = numbers.emplace(name, number);
      if (!is_new) {
        fail(place_of_list(),
             fmt::format("models {} and {} are both named '{}': give them a name: each in models",
                         other->second, number, name));
      }
    }
  }

  void check_ranks() const {
    const NamedRun& first = models_.front().model;
    for (const LoadedModel& other : models_) {
      if (other.model.config.ranks() == first.config.ranks()) continue;
      fail(place(other, "parallel.data"),
           fmt::format("parallel: models '{}' and '{}' are for {} and {} ranks; all models of a run have the "
                       "same ranks, each in a mesh of its own",
                       first.name, other.model.name, first.config.ranks(), other.model.config.ranks()));
    }
  }

  void check_schedules() const {
    for (const LoadedModel& model : models_) {
      if (!is_asynchronous(model.model.config.parallel.schedule)) continue;
      fail(place(model, "parallel.schedule"),
           fmt::format(
               "parallel.schedule: model '{}' has passes that reach across steps, and a run of several "
               "models alternates between whole steps; use another schedule, or train it alone",
               model.model.name));
    }
  }

  template <typename PathOf>
  void check_paths(const std::string& key, const std::string& kind, const std::string& of_run,
                   const PathOf& path_of) const {
    std::map<std::string, std::string> owners;
    if (!of_run.empty()) owners.emplace(normal(of_run), "the run");
    for (const LoadedModel& model : models_) {
      const std::string path = path_of(model.model.config);
      if (path.empty()) continue;
      const std::string name = fmt::format("model '{}'", model.model.name);
      const auto [owner, is_new] = owners.emplace(normal(path), name);
      if (is_new) continue;
      fail(place(model, key), fmt::format("{}: {} and {} have one {}, '{}': give it for the run only, or one "
                                          "for each model",
                                          key, owner->second, name, kind, path));
    }
  }

  /// The same for all ways of writing a path, as out, ./out and out/.
  static std::string normal(const std::string& path) {
    const std::filesystem::path whole = (std::filesystem::path(path) / "").lexically_normal();
    return whole.has_filename() ? whole.string() : whole.parent_path().string();
  }

  void check_selection() const {
    const Selection& select = run_.sections().select;
    if (select.rung_steps.empty()) return;
    const auto fail_at = [&](const std::string& key, const std::string& sentence) {
      const GivenToRun* given = run_.find_of_run(key);
      fail(given == nullptr ? run_.find_of_run("select.rung_steps")->place : given->place,
           fmt::format("{}: {}", key, sentence));
    };
    for (const LoadedModel& model : models_) {
      const RunConfig& config = model.model.config;
      if (!config.train.epochs && select.rung_steps.back() >= config.train.steps) {
        fail_at("select.rung_steps",
                fmt::format("{} is not less than the {} train.steps of model '{}'", select.rung_steps.back(),
                            config.train.steps, model.model.name));
      }
      if (select.by == SelectBy::validation && config.data.validation.empty() &&
          config.data.validation_fraction == 0) {
        fail_at("select.by", fmt::format("validation needs held-out data, and model '{}' has none: set "
                                         "data.validation or data.validation_fraction, or take training",
                                         model.model.name));
      }
    }
  }

  const std::vector<LoadedModel>& models_;
  const Loader& run_;
};

}  // namespace

void check_models(const std::vector<LoadedModel>& models, const Loader& run) {
  ModelChecks(models, run).check();
}

}  // namespace strata
