// The one table of the run file's keys: path, kind of value, unit, documentation, checks, and how the value
// reaches its field of RunConfig. Loading, the reference (`--help-config`) and the effective file
// (`--dump-config`) all come from it, so a key cannot be in one of them only. Immutable; read from any
// thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/config/run_config.h"

namespace YAML {
class Node;
}

namespace strata {

struct Key {
  std::string path;  ///< "optimizer.schedule.warmup"
  std::string type;  ///< "integer"
  std::string unit;  ///< "steps"; empty: none
  std::string doc;   ///< one or more sentences
  /// Reads the node into the field; throws value::WrongValue.
  std::function<void(RunConfig&, const YAML::Node&)> set;
  /// The value as YAML flow text; empty if it counts as not given.
  std::function<std::string(const RunConfig&)> get;
  /// What is wrong with the value, alone or beside others: a sentence without the key. Empty: nothing.
  std::function<std::string(const RunConfig&)> check;
  /// Other keys that `check` reads: if this key is not given, the error points at the first of them that
  /// is.
  std::vector<std::string> related;
};

struct Section {
  std::string path;
  std::string doc;
};

/// In the order of documentation and dump; keys of a section stand together.
const std::vector<Key>& config_keys();
/// Every section, outer before inner, in the order of their keys.
const std::vector<Section>& config_sections();

}  // namespace strata
