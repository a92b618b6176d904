// What of a run file all ranks of a run must have in common.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace strata {

struct RunConfig;

/// (key, value) in the order of the keys: every key but those that only tell of one host, as its threads and
/// the speed of its drives. Of a path, which hosts may name differently, whether one is given.
std::vector<std::pair<std::string, std::string>> common_values(const RunConfig& config);

/// The keys whose values may differ between ranks, and the keys that all ranks must set, or none.
const std::vector<std::string>& keys_of_one_host();
const std::vector<std::string>& paths_on_one_host();

}  // namespace strata
