// The dropout that a config.json asks for: what of it a run applies, and what it is told to be without.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "engine/model/architectures/architecture.h"

namespace strata {

class JsonReader;

/// An architecture's keys for dropout in the language model, and what an absent one means to HF.
struct DropoutKeys {
  std::span<const std::string_view> keys;
  double fallback;
};
DropoutKeys dropout_keys(std::string_view model_type);

/// Throws ConfigError if one of them is no probability.
void check_dropout(JsonReader& reader, std::string_view model_type);

/// Gives the architecture what its config asks for of embeddings and of residual branches: train.dropout.
/// Throws ConfigError if that is nothing, or everything.
void apply_dropout(Architecture& architecture, const nlohmann::json& config, const std::string& where);

/// One sentence that names the dropout of a config that parse_architecture() takes which a run is without:
/// that of attention's probabilities, and unless the run `applies` it all other. Empty if there is none.
std::string dropout_warning(const nlohmann::json& config, const std::string& where, bool applies);

}  // namespace strata
