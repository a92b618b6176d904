// The key table as text: the reference of the run file, and a RunConfig as the run file that gives it.
#pragma once

#include <string>
#include <vector>

#include "engine/config/run_config.h"

namespace strata {

/// Every key with its kind of value, unit, default and documentation, by section; for a terminal and for the
/// docs.
std::string help_config();

/// The paths of all keys, in the order of help_config().
std::vector<std::string> key_paths();

/// The full effective run file: parse_run_config(dump(c)) == c. Keys that are not given stand as comments.
std::string dump(const RunConfig& config);

}  // namespace strata
