// The dropout that a config.json asks for. Strata has none yet, so whoever trains such a model is told.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/model/architecture.h"

namespace strata {

class JsonReader;

/// A family's keys for dropout in the language model.
std::span<const std::string_view> dropout_keys(Family family);

/// Its value, HF's default if it is absent. Throws ConfigError if that is no probability.
double read_dropout(JsonReader& reader, std::string_view key);

/// One sentence that names the dropout of a config that parse_architecture() takes; empty if there is
/// none.
std::string dropout_warning(const nlohmann::json& config, const std::string& where);

}  // namespace strata
