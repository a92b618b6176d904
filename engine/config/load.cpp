#include "engine/config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/watchdog.h"
#include "engine/config/keys.h"
#include "engine/config/nearest.h"
#include "engine/config/value.h"
#include "engine/config/yaml_document.h"

namespace strata {
namespace {

const Key* find_key(const std::string& path) {
  const auto found = std::ranges::find(config_keys(), path, &Key::path);
  return found == config_keys().end() ? nullptr : &*found;
}

bool is_section(const std::string& path) {
  return path.empty() ||
         std::ranges::find(config_sections(), path, &Section::path) != config_sections().end();
}

class Loader {
 public:
  Loader(std::string file, std::int64_t ranks) : file_(std::move(file)), ranks_(ranks) {}

  void apply_file(const std::string& text) {
    const Source source{file_};
    const YAML::Node root = parse_yaml(text, source);
    if (!root.IsNull()) apply("", root, source, root.Mark());
  }

  void apply_override(const std::string& text) {
    const Source source{"--set " + text, true};
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) fail(source.name, "expected section.key=value");
    apply(text.substr(0, equals), parse_yaml(text.substr(equals + 1), source), source,
          YAML::Mark::null_mark());
  }

  RunConfig checked() {
    RunConfig::ParallelSection& parallel = config_.parallel;
    // Others are refused below.
    const auto allowed = [](std::int64_t count) { return std::clamp<std::int64_t>(count, 1, kMostOfAxis); };
    const std::int64_t context = allowed(parallel.context);
    const std::int64_t of_one = context * allowed(parallel.pipeline) * allowed(parallel.tensor);
    if (!places_.contains("parallel.data") && ranks_ % of_one == 0) parallel.data = ranks_ / of_one;
    if (parallel.shard && !places_.contains("parallel.data") &&
        __builtin_mul_overflow(parallel.replicate, *parallel.shard, &parallel.data)) {
      fail(places_.at("parallel.shard"),
           fmt::format("parallel.shard: {} times parallel.replicate, {}, is more ranks than there can be",
                       *parallel.shard, parallel.replicate));
    }
    if (parallel.shard && !places_.contains("parallel.data")) parallel.data /= context;
    for (const Key& key : config_keys()) {
      const std::string problem = key.check(config_);
      if (!problem.empty()) fail(place_of(key), fmt::format("{}: {}", key.path, problem));
    }
    return config_;
  }

 private:
  void apply(const std::string& path, const YAML::Node& node, const Source& source, const YAML::Mark& mark) {
    const std::string place = source.place(mark);
    if (const Key* key = find_key(path)) {
      set(*key, place, [&] { key->set(config_, node); });
    } else if (is_section(path)) {
      apply_section(path, node, source, place);
    } else if (path.starts_with("model.config.")) {
      const Key& key = *find_key("model.config");
      set(key, place, [&] { set_model_config(path.substr(key.path.size() + 1), node); });
    } else {
      fail(place, fmt::format("unknown key '{}': {}", path, suggest_key(path)));
    }
  }

  void apply_section(const std::string& path, const YAML::Node& node, const Source& source,
                     const std::string& place) {
    if (node.IsNull()) return;  // a section whose keys are all commented out
    if (!node.IsMap()) {
      fail(place,
           fmt::format("{}expected a map of keys ({})", path.empty() ? "" : path + ": ", keys_in(path)));
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const std::string entry_place = source.place(entry.first.Mark());
      if (!entry.first.IsScalar()) fail(entry_place, "a key must be a word");
      const std::string entry_path = (path.empty() ? "" : path + ".") + entry.first.Scalar();
      if (!seen.insert(entry_path).second) fail(entry_place, fmt::format("'{}' is given twice", entry_path));
      apply(entry_path, entry.second, source, entry.first.Mark());
    }
  }

  template <typename Setter>
  void set(const Key& key, const std::string& place, const Setter& setter) {
    try {
      setter();
    } catch (const value::WrongValue& error) {
      fail(place, fmt::format("{}: {}", key.path, error.what()));
    }
    places_[key.path] = place;
  }

  /// --set model.config.vocab_size=256: one key of the free map, whose inner keys only the model knows.
  void set_model_config(const std::string& path, const YAML::Node& node) {
    if (std::ranges::count(value::utf8(path), '.') >= value::kMaxDepth) value::refuse_depth();
    nlohmann::json* target = &config_.model.config;
    std::size_t begin = 0;
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
      target = &(*target)[path.substr(begin, dot - begin)];
      if (!target->is_object() && !target->is_null())
        throw value::WrongValue("is not a map on the way to " + path);
      begin = dot + 1;
    }
    (*target)[path.substr(begin)] = value::to_json(node);
  }

  /// Where the key or, failing that, one it was checked against was given; an override before the file.
  std::string place_of(const Key& key) const {
    std::vector<std::string> given;
    const auto collect = [&](const std::string& path) {
      const auto place = places_.find(path);
      if (place != places_.end()) given.push_back(place->second);
    };
    collect(key.path);
    for (const std::string& path : key.related) collect(path);
    if (given.empty()) return file_;
    const auto overridden =
        std::ranges::find_if(given, [](const auto& place) { return place.starts_with("--set "); });
    return overridden == given.end() ? given.front() : *overridden;
  }

  std::string file_;
  std::int64_t ranks_;
  RunConfig config_;
  std::map<std::string, std::string> places_;  ///< by key, of those that are given
};

std::string read_text(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw ConfigError(path + ": is a folder, not a run file");
  const WatchedWait wait([&path] { return "reading " + path; });
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw ConfigError(path + ": cannot read the run file: " + std::generic_category().message(errno));
  std::string text(kMaxRunFileBytes + 1, '\0');  // one more shows that there is more
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

RunConfig parse_run_config(std::string_view text, const std::string& name,
                           const std::vector<std::string>& overrides, std::int64_t ranks) {
  Loader loader(name, ranks);
  loader.apply_file(std::string(text));
  for (const std::string& text : overrides) loader.apply_override(text);
  return loader.checked();
}

RunConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides,
                          std::int64_t ranks) {
  return parse_run_config(read_text(path), path, overrides, ranks);
}

}  // namespace strata
