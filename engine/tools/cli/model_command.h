// What commands have in common that use a model without a run: its folder, its device and its budgets.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/run/assembly/opened_model.h"
#include "engine/run/generate/prompt_text.h"
#include "engine/tools/cli/commands.h"

namespace strata {

/// Throws ConfigError for what the command line says wrong, and as open_model() does.
OpenedModel open_model(const ModelCommand& command);

/// The folder or the file of the model's tokenizer, or "bytes". Throws ConfigError if a checkpoint, which has
/// none, is without.
std::string tokenizer_of(const ModelCommand& command, const ModelSource& source);

/// The value of data.begin_token that a word names.
BeginToken begin_token_named(const std::string& word);

/// What texts begin with: as the command says, or else as the checkpoint's run has it.
BeginToken begin_token_of(const ModelCommand& command, const ModelSource& source);

/// "1.20 GiB on the device, …": what the parameters take, and where those are that do not fit.
std::string memory_line(const UnitParameters& parameters, Bytes device_bytes, Bytes scratch_bytes);
nlohmann::json memory_json(const UnitParameters& parameters, Bytes device_bytes, Bytes scratch_bytes);

}  // namespace strata
