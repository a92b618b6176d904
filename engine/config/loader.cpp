#include "engine/config/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/config/foreign_answers.h"
#include "engine/config/nearest.h"
#include "engine/config/run_config.h"
#include "engine/config/run_length.h"
#include "engine/config/searched_keys.h"
#include "engine/config/value.h"

namespace strata {
namespace {

bool is_section(const std::string& path) {
  return path.empty() || find_path(config_sections(), path) != nullptr ||
         find_path(run_sections(), path) != nullptr;
}

/// --set model.config.vocab_size=256: one key of the free map, whose inner keys only the model knows.
void set_model_config(nlohmann::json& config, const std::string& path, const YAML::Node& node) {
  if (std::ranges::count(path, '.') >= value::kMaxDepth) value::refuse_depth();
  value::map_key(path);
  nlohmann::json* target = &config;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    target = &(*target)[path.substr(begin, dot - begin)];
    if (!target->is_object() && !target->is_null())
      throw value::WrongValue("is not a map on the way to " + path);
    begin = dot + 1;
  }
  (*target)[path.substr(begin)] = value::to_json(node);
}

/// What a setter refuses of the node, with key and place.
template <typename Setter>
void set_at(const std::string& place, const std::string& key, const YAML::Node& node, const Setter& setter) {
  try {
    setter();
  } catch (const value::WrongValue& error) {
    fail(place, fmt::format("{}: {}{}", key, error.what(), answer_to_foreign_value(key, node)));
  }
}

}  // namespace

Layer override_layer(const std::string& text, const std::string& run_file_folder) {
  const Source source{"--set " + text, true, run_file_folder};
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) fail(source.name, "expected section.key=value");
  return {Origin::command, source, text.substr(0, equals), parse_yaml(text.substr(equals + 1), source).root,
          YAML::Mark::null_mark()};
}

const Given* last_given(const std::vector<Given>& given, const std::string& key) {
  const auto found = std::find_if(given.rbegin(), given.rend(), [&](const Given& g) { return g.key == key; });
  return found == given.rend() ? nullptr : &*found;
}

void Loader::apply(const std::string& path, const YAML::Node& node, const YAML::Mark& mark,
                   const Layer& layer) {
  const std::string place = layer.source.place(mark);
  constexpr std::string_view kModelConfig = "model.config";
  if (const Key* key = find_path(config_keys(), path)) {
    set(*key, path, place, node, layer,
        [&](RunConfig& config) { key->set(config, node, layer.source.folder); });
  } else if (const RunKey* run_key = find_path(run_keys(), path)) {
    apply_to_run(*run_key, node, place, layer);
  } else if (is_section(path)) {
    apply_section(path, node, mark, layer);
  } else if (path.starts_with("model.config.")) {
    set(*find_path(config_keys(), std::string(kModelConfig)), path, place, node, layer,
        [&](RunConfig& config) {
          set_model_config(config.model.config, path.substr(kModelConfig.size() + 1), node);
        });
  } else {
    const PlacedKey unknown = most_telling_key({path, mark}, node);
    fail(layer.source.place(unknown.mark),
         fmt::format("unknown key '{}': {}", unknown.path, suggest_key(unknown.path, layer.beside)));
  }
}

void Loader::apply_section(const std::string& path, const YAML::Node& node, const YAML::Mark& mark,
                           const Layer& layer) {
  const std::string place = layer.source.place(mark);
  if (node.IsNull()) return;  // a section whose keys are all commented out
  const Section* section = find_path(config_sections(), path);
  if (section != nullptr && !section->key_of_none.empty() && node.IsScalar() && node.Scalar() == "none")
    return apply(section->key_of_none, node, mark, layer);
  if (!node.IsMap()) {
    fail(place, fmt::format("{}expected a map of keys ({}){}", path.empty() ? "" : path + ": ", keys_in(path),
                            answer_to_scalar_section(path, node)));
  }
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string entry_place = layer.source.place(entry.first.Mark());
    if (!entry.first.IsScalar()) fail(entry_place, "a key must be a word");
    const std::string entry_path = (path.empty() ? "" : path + ".") + entry.first.Scalar();
    if (!seen.insert(entry_path).second) fail(entry_place, fmt::format("'{}' is given twice", entry_path));
    if (std::ranges::find(layer.beside, entry_path) == layer.beside.end())
      apply(entry_path, entry.second, entry.first.Mark(), layer);
  }
}

void Loader::apply_to_run(const RunKey& key, const YAML::Node& node, const std::string& place,
                          const Layer& layer) {
  if (layer.origin == Origin::file)
    fail(place, fmt::format("{}: a run file that another one names has one model", key.path));
  if (layer.origin != Origin::run && layer.origin != Origin::command)
    fail(place, fmt::format("{0} is the run's: give it beside models or sweep, not in one", key.path));
  set_at(place, key.path, node, [&] { key.set(sections_, node, layer.source.folder); });
  given_to_run_.push_back({key.path, place, layer.source});
}

template <typename Setter>
void Loader::set(const Key& key, const std::string& path, const std::string& place, const YAML::Node& node,
                 const Layer& layer, const Setter& setter) {
  const bool of_run = is_of_run(key.path);
  if (of_run && layer.origin == Origin::entry)
    fail(place, fmt::format("{} is the run's: give it beside models:, not in one", path));
  if (of_run && layer.origin == Origin::sweep)
    fail(place, fmt::format("{} is the run's: give it beside sweep:, not in it", path));
  const bool kept = of_run ? layer.origin != Origin::file : !layer.only_of_run;
  set_at(place, key.path, node, [&] {
    if (kept) return setter(config_);
    RunConfig ignored;
    setter(ignored);
  });
  if (kept) given_.push_back({key.path, path, place, layer.origin});
}

const GivenToRun* Loader::find_of_run(const std::string& path) const {
  const auto found = std::find_if(given_to_run_.rbegin(), given_to_run_.rend(),
                                  [&](const GivenToRun& given) { return given.path == path; });
  return found == given_to_run_.rend() ? nullptr : &*found;
}

void Loader::check_sections() const {
  for (const RunKey& key : run_keys()) {
    const std::string problem = key.check(sections_);
    const GivenToRun* given = find_of_run(key.path);
    if (!problem.empty())
      fail(given == nullptr ? place_ : given->place, fmt::format("{}: {}", key.path, problem));
  }
}

RunConfig Loader::checked() {
  ParallelSection& parallel = config_.parallel;
  // Others are refused below.
  const auto allowed = [](std::int64_t count) { return std::clamp<std::int64_t>(count, 1, kMostOfAxis); };
  const std::int64_t context = allowed(parallel.context);
  const std::int64_t of_one = context * allowed(parallel.pipeline) * allowed(parallel.tensor);
  config_.plan.open.clear();
  if (config_.plan.search == PlanSearch::automatic) {
    for (const std::string_view key : kSearchedKeys) {
      if (find(std::string(key)) == nullptr && !(is_of_stages(key) && find("parallel.stages") != nullptr))
        config_.plan.open.emplace_back(key);
    }
  }
  if (find("parallel.data") == nullptr && config_.plan.search == PlanSearch::none) {
    if (ranks_ % of_one == 0) parallel.data = ranks_ / of_one;
    if (parallel.shard) {
      if (__builtin_mul_overflow(parallel.replicate, *parallel.shard, &parallel.data)) {
        fail(find("parallel.shard")->place,
             fmt::format("parallel.shard: {} times parallel.replicate, {}, is more ranks than there can be",
                         *parallel.shard, parallel.replicate));
      }
      parallel.data /= context;
    }
  }
  choose_length();
  for (const Key& key : config_keys()) {
    const std::string problem = key.check(config_);
    if (!problem.empty()) fail(place_of(key), fmt::format("{}: {}", key.path, problem));
  }
  return config_;
}

/// Keeps train.steps or train.epochs: the one whose giver has the last word. Cuts a warm-up that another
/// giver made longer than the run. The key's check refuses a file that contradicts itself.
void Loader::choose_length() {
  const Given *steps = find("train.steps"), *epochs = find("train.epochs");
  if (config_.train.epochs && steps != nullptr) {
    if (steps->origin == epochs->origin)
      fail(epochs->place, "train.epochs: train.steps gives the length of the run, too; take one of them out");
    if (steps->origin > epochs->origin) config_.train.epochs.reset();
  }
  if (config_.train.epochs) config_.train.steps = RunConfig().train.steps;  // until the data are read
  const Given* warmup = find("optimizer.schedule.warmup");
  const bool is_of_other = steps != nullptr && warmup != nullptr && steps->origin != warmup->origin;
  if (is_of_other && !config_.train.epochs && config_.train.steps > 0) cut_warmup(config_);
}

/// Where the key, or one that it was checked against, was given by who has the last word: the key's own place
/// if both were given by the same.
std::string Loader::place_of(const Key& key) const {
  const Given* blamed = find(key.path);
  for (const std::string& path : key.related) {
    const Given* given = find(path);
    if (given != nullptr && (blamed == nullptr || given->origin > blamed->origin)) blamed = given;
  }
  return blamed == nullptr ? place_ : blamed->place;
}

}  // namespace strata
