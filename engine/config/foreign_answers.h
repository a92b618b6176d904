// Internal to config: what to say to somebody who writes a run file in the words of another tool, by the
// tables of foreign_keys.h. Pure functions.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "engine/config/yaml_document.h"

namespace strata {

/// "it is optimizer.lr here", if another tool has a key that the unknown `path` ends with; else empty.
std::string answer_to_foreign_key(const std::string& path);

/// A key of a file and where it stands.
struct PlacedKey {
  std::string path;
  YAML::Mark mark;
};
/// The first key within the unknown `key` that another tool has, or `key` itself if there is none. `node` is
/// its value.
PlacedKey most_telling_key(const PlacedKey& key, const YAML::Node& node);

/// "; write bf16", if another tool has this value for our key `path`; else empty.
std::string answer_to_foreign_value(const std::string& path, const YAML::Node& node);

/// "; 'cuda' belongs to device.kind", if one of the section's keys is what stands in the section's place;
/// else empty.
std::string answer_to_scalar_section(const std::string& section, const YAML::Node& node);

/// Throws ConfigError if the file is another tool's as a whole, or TOML.
void refuse_toml(const std::string& text, const Source& source);
void refuse_foreign_file(const YAML::Node& root, const Source& source);

}  // namespace strata
