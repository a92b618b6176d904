#include "engine/model/run_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/dropout.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/model/sampling_model.h"
#include "engine/model/split_context.h"
#include "engine/model/split_model.h"

namespace strata {
namespace {

/// Documents and samples have lengths of their own. A run without these has sequences of one length.
SequenceForm form_of(const Architecture& architecture, const RunConfig& config) {
  SequenceForm form{.within_documents = config.is_within_documents()};
  if (!form.within_documents && config.samples.prompts.empty()) return form;
  for (const Rotation& rotation : rotations_of(architecture))
    if (const std::int64_t border = short_length(rotation); border < config.data.sequence_length)
      form.short_length = std::max(form.short_length, border);
  return form;
}

/// Dynamic rotations are others at each length beyond the model's positions. Of these lengths tables have
/// that of the run's sequences.
void refuse_lengths_beyond(const Architecture& architecture, const RunConfig& config) {
  const auto& dynamic = architecture.rope.dynamic;
  if (!dynamic) return;
  const auto refuse_beyond = [&](const char* key, const char* length_key, std::int64_t length) {
    if (length <= dynamic->max_positions) return;
    throw ConfigError(
        fmt::format("{}: the model's rope type is dynamic, whose rotation is another one at each length "
                    "beyond {} tokens; shorten {} to that, or leave {} out",
                    key, dynamic->max_positions, length_key, key));
  };
  const std::int64_t sequence = config.data.sequence_length;
  if (config.is_within_documents()) refuse_beyond("data.packing", "data.sequence_length", sequence);
  if (!config.samples.prompts.empty())
    refuse_beyond("train.samples", "train.samples.max_length", std::min(config.samples.max_length, sequence));
}

/// Samples have no auxiliary loss.
Architecture sampled(Architecture architecture) {
  architecture.balance_coefficient = 0;
  return architecture;
}

Model split_layers(const Model& whole, const RunConfig& config, std::int64_t rank) {
  const std::int64_t tensor = config.parallel.tensor;
  try {
    return split_model(whole, tensor_split(tensor, rank % tensor, config.parallel.sequence));
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("parallel.tensor: {}", error.what()));
  }
}

}  // namespace

ModelConfig model_config_of_run_file(const RunConfig& config) {
  ModelConfig model{config.model.config, "model.config"};
  const std::string& type = config.model.architecture;
  if (const auto found = model.keys.find("model_type"); found != model.keys.end() && *found != type) {
    throw ConfigError(
        fmt::format("model.config: model_type is {}, and model.architecture is {}; take the former out",
                    found->dump(), type));
  }
  model.keys["model_type"] = type;
  // A run file asks for dropout only if it says so, whatever HF's default is.
  if (type == "gpt2") {
    for (const std::string_view key : dropout_keys(type).keys) model.keys.emplace(key, 0.0);
  }
  return model;
}

Architecture architecture_of_run(const ModelConfig& model, const RunConfig& config) {
  Architecture architecture = parse_architecture(model.keys, model.where);
  if (config.train.dropout) apply_dropout(architecture, model.keys, model.where);
  if (architecture.family == Family::gpt2 && config.data.sequence_length > architecture.max_positions) {
    throw ConfigError(
        fmt::format("data.sequence_length: {} is more than the {} positions that the model has learned",
                    config.data.sequence_length, architecture.max_positions));
  }
  return architecture;
}

Model model_of_run(const Architecture& architecture, const RunConfig& config) {
  refuse_lengths_beyond(architecture, config);
  const auto build = [&](const Architecture& of) {
    return build_model(of, {.rounding = config.rounding(),
                            .adapter = config.adapter,
                            .form = form_of(architecture, config),
                            .freeze = config.train.freeze,
                            .optimizer = config.optimizer,
                            .averages = config.ema.decay > 0});
  };
  Model model = build(architecture);
  model.max_chunk_bytes = max_chunk_bytes(config.device.kind);
  if (!config.samples.prompts.empty()) {
    const std::int64_t positions = config.data.sequence_length / config.parallel.context;
    model.sampling = std::make_shared<const Model>(sampling_model(build(sampled(architecture)), positions));
  }
  return model;
}

Model model_of_rank(const Architecture& architecture, const RunConfig& config, std::int64_t rank) {
  Model model = model_of_run(architecture, config);
  if (config.parallel.tensor > 1) model = split_layers(model, config, rank);
  return split_context(std::move(model), context_part(config, rank));
}

}  // namespace strata
