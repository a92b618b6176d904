// From a run file to the model of one rank: the config.json, the architecture, and all that is done to the
// model before it is planned. The only way to a run's model. Plain functions, without files.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/model/architectures/architecture.h"

namespace strata {

struct Model;
struct RunConfig;

/// The keys of a model's config.json, and what errors call that file.
struct ModelConfig {
  nlohmann::json keys;
  std::string where;
};

/// The config.json that a run file without model.path describes: model.config, with model.architecture as its
/// model_type. Throws ConfigError if model.config names another type.
ModelConfig model_config_of_run_file(const RunConfig& config);

/// The architecture of a run: with dropout if train.dropout asks for it. Throws ConfigError if the
/// config.json cannot be read so, or the model has fewer learned positions than data.sequence_length.
Architecture architecture_of_run(const ModelConfig& model, const RunConfig& config);

/// The model of a run, not shared out to ranks: with its adapters, rounding, packing, frozen tensors and
/// update policies, and with the model of its samples. Throws ConfigError.
Model model_of_run(const Architecture& architecture, const RunConfig& config);

/// The model of a run as `rank` has it: model_of_run() with the rank's part of each layer (parallel.tensor)
/// and of each sequence (parallel.context). The planner cuts it into stages. Throws ConfigError if the model
/// cannot be shared out so.
Model model_of_rank(const Architecture& architecture, const RunConfig& config, std::int64_t rank);

}  // namespace strata
