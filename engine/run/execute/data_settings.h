// The settings that decide which samples a run reads, as its checkpoints keep them. A run that resumes with
// others continues with other samples, which is seldom meant. Pure functions; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace strata {

struct RunConfig;

/// Values as YAML flow text, by path of their keys ("data.packing"); empty: not given.
using DataSettings = std::map<std::string, std::string>;

/// All keys of `data` but data.cache, and train.batch and train.seed. A long value is its length and a hash.
DataSettings data_settings(const RunConfig& config);

/// A sentence for each key whose values differ. What only one of them has is a key of another version, and
/// is left out.
std::vector<std::string> differences(const DataSettings& saved, const DataSettings& wanted);

}  // namespace strata
