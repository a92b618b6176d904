// From a run file of one model to a checked RunConfig. Whatever is wrong with the file becomes one
// ConfigError that says where (file:line:column, or the --set that said it), what was expected, and what was
// found. Pure functions of their input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata {

struct RunConfig;

/// Reads the YAML (or JSON) file at `path`, then applies `overrides` in order, each "section.key=value" with
/// a YAML value, then checks. Keys that are not given have their defaults, parallel.data that of as many
/// `ranks` as there are. Throws ConfigError, also for a file of several models (run_models.h).
RunConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides = {},
                          std::int64_t ranks = 1);

/// The same from the file's text; `name` stands for the file in errors.
RunConfig parse_run_config(std::string_view text, const std::string& name,
                           const std::vector<std::string>& overrides = {}, std::int64_t ranks = 1);

/// The text of a run file, cut off where it is longer than any. Throws ConfigError.
std::string read_run_file(const std::string& path);

}  // namespace strata
