#include "engine/run/assembly/load_model.h"

#include <fmt/format.h>

#include "engine/config/run_config.h"
#include "engine/model/architectures/dropout.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/checkpoint/peft_folder.h"

namespace strata {
namespace {

ModelConfig load_model_config(const RunConfig& config) {
  if (config.model.path.empty()) return model_config_of_run_file(config);
  return {read_hf_config(config.model.path), config.model.path + "/config.json"};
}

}  // namespace

Architecture load_architecture(const RunConfig& config) {
  return architecture_of_run(load_model_config(config), config);
}

Model load_model_of_rank(const RunConfig& config, std::int64_t rank) {
  return model_of_rank(load_architecture(config), config, rank);
}

std::vector<std::string> model_warnings(const RunConfig& config) {
  const ModelConfig model = load_model_config(config);
  std::vector<std::string> warnings = {dropout_warning(model.keys, model.where, config.train.dropout),
                                       dropout_warning(config.adapter),
                                       unread_weights_warning(config.model.path)};
  std::erase(warnings, "");
  const std::int64_t positions = parse_architecture(model.keys, model.where).max_positions;
  if (config.data.sequence_length > positions)
    warnings.push_back(fmt::format(
        "data.sequence_length: {} tokens are more than the {} positions that the model is made for "
        "(max_position_embeddings of {})",
        config.data.sequence_length, positions, model.where));
  return warnings;
}

CompanionSources companion_sources(const RunConfig& config) {
  const std::string& tokenizer = config.data.tokenizer_path;
  return {.model = config.model.path, .tokenizer = tokenizer.empty() ? config.model.path : tokenizer};
}

}  // namespace strata
