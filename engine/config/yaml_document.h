// From the text of a run file, or of one --set, to YAML nodes. Nodes are built only once it is known how many
// there are with every alias written out, and how deep they lie. Plain functions.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace strata {

constexpr std::size_t kMaxRunFileBytes = std::size_t{4} << 20;

/// Where a node was written: a file, or one --set.
struct Source {
  std::string name;
  bool is_override = false;
  std::string folder = {};  ///< of the run file, absolute

  /// "run.yaml:3:5", or the --set.
  std::string place(const YAML::Mark& mark) const;
};

/// Throws ConfigError: "<place>: <sentence>".
[[noreturn]] void fail(const std::string& place, const std::string& sentence);

struct Document {
  YAML::Node root;
  std::int64_t values;  ///< with its aliases written out
};

/// The one document of `text`, YAML or JSON; null if it is empty. Throws ConfigError with the place if
/// it is neither, has a second document, or is deeper or larger than any run file.
Document parse_yaml(const std::string& text, const Source& source);

}  // namespace strata
