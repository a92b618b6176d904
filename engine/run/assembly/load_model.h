// The model that a run file names, read from its Hugging Face folder or from the run file itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/run_model.h"
#include "engine/run/checkpoint/companions.h"

namespace strata {

struct RunConfig;

/// The architecture of a run: from config.json of model.path, or from model.config. Throws ConfigError.
Architecture load_architecture(const RunConfig& config);

/// The model of a run as `rank` has it: load_architecture() and model_of_rank(). Throws ConfigError.
Model load_model_of_rank(const RunConfig& config, std::int64_t rank);

/// Sentences on what the model's files ask for and the run does not do, such as dropout. Throws ConfigError.
std::vector<std::string> model_warnings(const RunConfig& config);

/// Where the run's model and its tokenizer are. Empty paths: the run file names none.
CompanionSources companion_sources(const RunConfig& config);

}  // namespace strata
