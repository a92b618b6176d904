// Internal to config: a RunConfig from layers, each laid over those before it. A run of one model has the run
// file and its --sets; one of several has for each model the run file, another file or an entry of `models`,
// values of `sweep`, and the --sets. Plain values: a Loader is copied where models part.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/keys.h"
#include "engine/config/run_config.h"
#include "engine/config/run_keys.h"
#include "engine/config/yaml_document.h"

namespace strata {

/// Who gives a value, the later over the earlier: the run file, one that `run` names, an entry of `models`, a
/// value of `sweep`, a --set.
enum class Origin : std::uint8_t { run, file, entry, sweep, command };

struct Layer {
  Origin origin;
  Source source;
  std::string path;  ///< of the key or section that `node` is; empty: of the whole file
  YAML::Node node;
  YAML::Mark mark;                       ///< where the key stands
  bool only_of_run = false;              ///< keep is_of_run() keys only
  std::vector<std::string> beside = {};  ///< words among the keys at the top that are none
};

/// A --set for a run file in `run_file_folder`. Throws ConfigError if the text is not section.key=value with
/// a YAML value.
Layer override_layer(const std::string& text, const std::string& run_file_folder);

/// A key of a model that was given, in the words of who gave it.
struct Given {
  std::string key;   ///< "model.config"
  std::string path;  ///< "model.config.n_layer"
  std::string place;
  Origin origin;
};
/// The last that gave the key; null: nobody.
const Given* last_given(const std::vector<Given>& given, const std::string& key);

/// A key of the run itself.
struct GivenToRun {
  std::string path;
  std::string place;
  Source source;
};

class Loader {
 public:
  /// `place` is named where nothing that was given is to blame. parallel.data that is not given is that of
  /// as many `ranks` as there are.
  Loader(std::string place, std::int64_t ranks) : place_(std::move(place)), ranks_(ranks) {}

  /// Reads all keys. What a file that `run` names says of the run is not kept (is_of_run()); an entry or a
  /// sweep that says so is refused. Throws ConfigError.
  void apply(const Layer& layer) { apply(layer.path, layer.node, layer.mark, layer); }

  /// The same from now on.
  void blame(std::string place) { place_ = std::move(place); }

  const std::string& place() const { return place_; }

  RunConfig& config() { return config_; }
  const RunConfig& config() const { return config_; }
  const RunSections& sections() const { return sections_; }

  const std::vector<Given>& given() const { return given_; }
  const Given* find(const std::string& key) const { return last_given(given_, key); }
  const GivenToRun* find_of_run(const std::string& path) const;
  const std::vector<GivenToRun>& given_to_run() const { return given_to_run_; }

  /// Checks keys of the run itself. Throws ConfigError.
  void check_sections() const;
  /// The config, in which every key's check holds. Throws ConfigError.
  RunConfig checked();

 private:
  void apply(const std::string& path, const YAML::Node& node, const YAML::Mark& mark, const Layer& layer);
  void apply_section(const std::string& path, const YAML::Node& node, const YAML::Mark& mark,
                     const Layer& layer);
  void apply_to_run(const RunKey& key, const YAML::Node& node, const std::string& place, const Layer& layer);
  template <typename Setter>
  void set(const Key& key, const std::string& path, const std::string& place, const YAML::Node& node,
           const Layer& layer, const Setter& setter);
  std::string place_of(const Key& key) const;
  void choose_length();

  std::string place_;
  std::int64_t ranks_;
  RunConfig config_;
  RunSections sections_;
  std::vector<Given> given_;              ///< in this order
  std::vector<GivenToRun> given_to_run_;  ///< in this order
};

}  // namespace strata
