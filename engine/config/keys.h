// The one table of the run file's keys: path, kind of value, unit, documentation, checks, and how the value
// reaches its field of RunConfig. Loading, the reference (`--help-config`) and the effective file
// (`--dump-config`) all come from it, so a key cannot be in one of them only. Immutable; read from any
// thread.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "engine/config/run_config.h"

namespace YAML {
class Node;
}

namespace strata {

/// A key of what the run file is read into, `C`.
template <typename C>
struct KeyOf {
  std::string path;  ///< "optimizer.schedule.warmup"
  std::string type;  ///< "integer"
  std::string unit;  ///< "steps"; empty: none
  std::string doc;   ///< one or more sentences
  /// What the reference says of a key whose default depends on the run file, such as "default out/NAME".
  std::string default_words = {};
  /// Reads the node, of a run file in that folder, into the field; throws value::WrongValue.
  std::function<void(C&, const YAML::Node&, const std::string& run_file_folder)> set;
  /// The value as YAML flow text; empty if it counts as not given.
  std::function<std::string(const C&)> get;
  /// What is wrong with the value, alone or beside others: a sentence without the key. Empty: nothing.
  std::function<std::string(const C&)> check;
  /// Other keys that `check` reads: if this key is not given, the error points at the first of them that
  /// is.
  std::vector<std::string> related;
};

using Key = KeyOf<RunConfig>;

/// The last word of a path: "warmup".
inline std::string leaf_of(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

struct Section {
  std::string path;
  std::string doc;
  std::string key_of_none =
      {};  ///< the word none in the section's place is that key's value; empty: it is refused
};

/// In the order of documentation and dump; keys of a section stand together.
const std::vector<Key>& config_keys();
/// Every section, outer before inner, in the order of their keys.
const std::vector<Section>& config_sections();

/// The element of that path; null if there is none.
template <typename T>
const T* find_path(const std::vector<T>& table, const std::string& path) {
  const auto found = std::ranges::find(table, path, &T::path);
  return found == table.end() ? nullptr : &*found;
}

}  // namespace strata
