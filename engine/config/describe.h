// The key table as text: the reference of the run file, and a RunConfig as the run file that gives it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace strata {

struct RunConfig;

/// Wider lines are harder to read.
constexpr std::size_t kWidestHelp = 100;
/// Every key with its kind of value, unit, default and documentation, by section, in lines of at most
/// `columns`; for a terminal and for the docs.
std::string help_config(std::size_t columns = kWidestHelp);

/// The paths of all keys, in the order of help_config().
std::vector<std::string> key_paths();

/// The full effective run file: parse_run_config(dump(c)) == c. Keys that are not given stand as comments.
std::string dump(const RunConfig& config);

}  // namespace strata
