#include "engine/config/run_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "engine/config/foreign_answers.h"
#include "engine/config/loaded_model.h"
#include "engine/config/loader.h"
#include "engine/config/model_names.h"
#include "engine/config/path_text.h"
#include "engine/config/run_config.h"
#include "engine/config/sweep.h"
#include "engine/config/value.h"

namespace strata {
namespace {

using ReadRunFile = std::function<std::string(const std::string&)>;

/// An entry of `models`. A sweep makes several models of one entry.
struct Entry {
  std::string name;  ///< empty: the only one, of a sweep
  Loader loader;
};

/// Bounds what a small file makes of itself, as 1000 models with a large model.config each.
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

Source source_of_file(const std::string& path) {
  return {path, false, folder_of_run_file(path)};
}

Document parse_run_file(const std::string& text, const Source& source) {
  refuse_toml(text, source);
  Document document = parse_yaml(text, source);
  refuse_foreign_file(document.root, source);
  return document;
}

std::size_t text_bytes(const RunConfig& config) {
  std::size_t bytes = 0;
  for (const Key& key : config_keys()) bytes += key.get(config).size();
  return bytes;
}

/// Makes the models of a run file that has several.
class Models {
 public:
  Models(const Layer& file, const std::vector<Layer>& commands, const Loader& run, std::int64_t ranks,
         const ReadRunFile& read)
      : name_(file.source.name),
        commands_(commands),
        run_(run),
        read_(read),
        outer_(loaded(file, ranks, /*only_of_run=*/false)),
        of_run_(loaded(file, ranks, /*only_of_run=*/true)) {}

  std::vector<LoadedModel> make() {
    if (const auto* given = run_.find_of_run("sweep"))
      sweep_ = read_sweep(run_.sections().sweep, given->source);
    refuse_set_of_swept();
    const std::vector<Entry> entries = read_entries();
    if (combinations(sweep_, kMostModels + 1) * static_cast<std::int64_t>(entries.size()) > kMostModels)
      fail(name_, fmt::format("models and sweep give more than {} models", kMostModels));
    const auto all = product(sweep_);
    std::vector<LoadedModel> models;
    models.reserve(all.size() * entries.size());
    for (const Entry& entry : entries) {
      for (const auto& values : all) models.push_back(model_of(entry, values));
    }
    return models;
  }

 private:
  void count_bytes(std::size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > kMostBytes) {
      fail(name_,
           fmt::format("the models of this run have more than {} bytes of values together; write fewer or "
                       "shorter ones, as patterns in place of long lists",
                       kMostBytes));
    }
  }

  /// A --set counts for every model, and would make those of a sweep equal.
  void refuse_set_of_swept() const {
    for (const Given& given : run_.given()) {
      for (const SweptKey& key : sweep_) {
        if (given.origin == Origin::command && overlap(given.path, key.path)) {
          fail(given.place, fmt::format("{} is swept ({}), and a --set would give all its models one value",
                                        key.path, key.place));
        }
      }
    }
  }

  std::vector<Entry> read_entries() {
    std::vector<Entry> entries;
    const GivenToRun* given = run_.find_of_run("models");
    if (given == nullptr) {
      entries.push_back({"", outer_});
      return entries;
    }
    const YAML::Node& list = run_.sections().models;
    if (std::ssize(list) > kMostModels)
      fail(given->place, fmt::format("a run has at most {} models, not {}", kMostModels, list.size()));
    entries.reserve(list.size());
    for (const YAML::Node& node : list)
      entries.push_back(read_entry(node, given->source, entries.size() + 1));
    return entries;
  }

  /// A copy of what an entry is laid over: this run file or, if it names its own, what this says of the run.
  Loader copied(const Loader& base) {
    count_bytes(text_bytes(base.config()));
    return base;
  }

  static Loader loaded(Layer file, std::int64_t ranks, bool only_of_run) {
    file.only_of_run = only_of_run;
    Loader loader(file.source.name, ranks);
    loader.apply(file);
    return loader;
  }

  Entry read_entry(const YAML::Node& node, const Source& source, std::size_t number) {
    const std::string place = source.place(node.Mark());
    if (!node.IsMap() && !(node.IsScalar() && !node.Scalar().empty()))
      fail(place, "models: expected a run file or a map of keys, as {train: {seed: 2}}");
    std::optional<std::string> run = node.IsMap() ? word_of(node, "run", source) : node.Scalar();
    if (run) run = path_of(*run, source, place);
    std::optional<std::string> name;
    if (node.IsMap()) name = word_of(node, "name", source);
    if (const std::string problem = name ? check_name(*name) : ""; !problem.empty())
      fail(place, fmt::format("name: '{}' {}", *name, problem));

    Loader loader = copied(run ? of_run_ : outer_);
    loader.blame(run.value_or(place));
    if (run) loader.apply(layer_of_file(*run, place));
    if (node.IsMap()) {
      const Layer entry{Origin::entry, source, "", node, node.Mark(), false, {"name", "run"}};
      loader.apply(entry);
    }
    refuse_swept_in_entry(loader);
    return {name.value_or(run ? name_of_file(*run) : fmt::format("model-{}", number)), std::move(loader)};
  }

  /// The text that stands under a word of the entry that is no key.
  static std::optional<std::string> word_of(const YAML::Node& entry, const std::string& word,
                                            const Source& source) {
    for (const auto& key : entry) {
      if (!key.first.IsScalar() || key.first.Scalar() != word) continue;
      if (!key.second.IsScalar() || key.second.Scalar().empty())
        fail(source.place(key.first.Mark()), fmt::format("{}: expected text", word));
      return key.second.Scalar();
    }
    return std::nullopt;
  }

  /// The run file that an entry names.
  static std::string path_of(const std::string& text, const Source& source, const std::string& place) {
    try {
      return read_path(text, source.folder);
    } catch (const value::WrongValue& error) {
      fail(place, fmt::format("models: {}", error.what()));
    }
  }

  Layer layer_of_file(const std::string& path, const std::string& place) {
    std::string text;
    try {
      text = read_(path);
    } catch (const ConfigError& error) {
      fail(place, error.what());
    }
    const Source source = source_of_file(path);
    const Document document = parse_run_file(text, source);
    count_bytes(text.size() + static_cast<std::size_t>(document.values));
    return {Origin::file, source, "", document.root, document.root.Mark()};
  }

  void refuse_swept_in_entry(const Loader& loader) const {
    for (const Given& given : loader.given()) {
      for (const SweptKey& key : sweep_) {
        if (given.origin == Origin::entry && is_within(given.path, key.path))
          fail(given.place, fmt::format("{} is swept ({}), so no entry can give it", key.path, key.place));
      }
    }
  }

  LoadedModel model_of(const Entry& entry, const std::vector<const SweptValue*>& values) {
    Loader loader = entry.loader;
    std::string name = entry.name;
    for (const SweptValue* value : values) {
      loader.apply(value->layer);
      name += (name.empty() ? "" : ",") + value->name;
    }
    for (const Layer& command : commands_) loader.apply(command);
    const auto has_own = [&](const std::string& key) {
      const Given* given = loader.find(key);
      return given != nullptr && given->origin != Origin::run && given->origin != Origin::command;
    };
    const RunConfig& of_run = run_.config();
    RunConfig& config = loader.config();
    if (!has_own("checkpoint.path")) config.checkpoint.path = folder_of_model(of_run.checkpoint.path, name);
    if (!has_own("report.metrics")) config.report.metrics = file_of_model(of_run.report.metrics, name);
    if (!has_own("report.tensorboard"))
      config.report.tensorboard = folder_of_model(of_run.report.tensorboard, name);
    count_bytes(text_bytes(config));
    NamedRun model{std::move(name), {}, loader.checked()};
    return {std::move(model), loader.given()};
  }

  const std::string name_;  ///< of the run file
  const std::vector<Layer>& commands_;
  const Loader& run_;
  const ReadRunFile& read_;
  const Loader outer_, of_run_;
  std::vector<SweptKey> sweep_;
  std::size_t bytes_ = 0;
};

void check_no_selection(const Loader& run) {
  if (!run.given_to_run().empty()) {
    const GivenToRun& given = run.given_to_run().front();
    fail(given.place, fmt::format("{}: there is one model; add models or sweep", given.path));
  }
}

RunModels run_of_one(Loader run) {
  check_no_selection(run);
  RunModels result;
  result.models.push_back({"", {}, run.checked()});
  result.checkpoint_path = run.config().checkpoint.path;
  result.metrics = run.config().report.metrics;
  result.tensorboard = run.config().report.tensorboard;
  return result;
}

}  // namespace

RunModels parse_run_models(std::string_view text, const std::string& name,
                           const std::vector<std::string>& overrides, std::int64_t ranks,
                           const ReadRunFile& read) {
  const Source source = source_of_file(name);
  const YAML::Node root = parse_run_file(std::string(text), source).root;
  const Layer file{Origin::run, source, "", root, root.Mark()};
  Loader run(name, ranks);
  run.apply(file);
  std::vector<Layer> commands;
  commands.reserve(overrides.size());
  for (const std::string& text_of_override : overrides)
    run.apply(commands.emplace_back(override_layer(text_of_override, source.folder)));
  if (run.find("checkpoint.path") == nullptr) run.config().checkpoint.path = default_checkpoint_folder(name);
  if (run.find_of_run("models") == nullptr && run.find_of_run("sweep") == nullptr)
    return run_of_one(std::move(run));

  run.check_sections();
  RunModels result;
  result.is_several = true;
  result.select = run.sections().select;
  result.checkpoint_path = run.config().checkpoint.path;
  result.metrics = run.config().report.metrics;
  result.tensorboard = run.config().report.tensorboard;
  std::vector<LoadedModel> models = Models(file, commands, run, ranks, read).make();
  if (run.config().plan.search == PlanSearch::automatic) {
    const Given* given = run.find("plan.search");
    fail(
        given == nullptr ? name : given->place,
        "plan.search: auto is for a run of one model; give microbatch and layout where there are several, or "
        "leave it out");
  }
  check_models(models, run);
  add_overrides(models, result);
  result.models.reserve(models.size());
  for (LoadedModel& model : models) result.models.push_back(std::move(model.model));
  return result;
}

RunModels load_run_models(const std::string& path, const std::vector<std::string>& overrides,
                          std::int64_t ranks) {
  return parse_run_models(read_run_file(path), path, overrides, ranks);
}

}  // namespace strata
