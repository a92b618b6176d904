// The dropout that a config.json asks for. Strata has none yet, so whoever trains such a model is told.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

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

/// One sentence that names the dropout of a config that parse_architecture() takes; empty if there is
/// none.
std::string dropout_warning(const nlohmann::json& config, const std::string& where);

}  // namespace strata
