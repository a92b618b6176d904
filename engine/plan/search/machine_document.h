// The file of a machine's profile as JSON values: as strata doctor writes it, or YAML written by hand. A pure
// function; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace strata {

/// YAML if `path` ends with .yaml or .yml, else JSON. Throws ConfigError that names `path` and the place if
/// `text` is neither.
nlohmann::json machine_document(std::string_view text, const std::string& path);

}  // namespace strata
