// Prompts as tokens: of strata generate, and of the samples that a run takes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/choices.h"
#include "engine/input/chat/chat_template.h"
#include "engine/input/data/training_data.h"
#include "engine/run/generate/prompt_text.h"

namespace strata {

struct RunConfig;

struct PromptForm {
  bool is_chat;             ///< a prompt is what a user says, in the chat template beside the tokenizer
  BeginToken begin;         ///< what another prompt begins with
  std::string_view option;  ///< that asks for `is_chat`, for errors
};

/// `tokenizer` is what `text` was read from. Throws ConfigError, IoError.
std::vector<std::vector<std::int32_t>> encode_prompts(std::span<const std::string> prompts,
                                                      const PromptText& text, const std::string& tokenizer,
                                                      const PromptForm& form);

/// The chat template beside the tokenizer that `text` was read from. `option` asks for it, for errors. Throws
/// ConfigError, IoError.
chat::ChatTemplate read_chat_template(const PromptText& text, const std::string& tokenizer,
                                      std::string_view option);

/// A conversation up to where the model speaks. Throws ConfigError as the template does.
std::vector<std::int32_t> encode_messages(const chat::ChatTemplate& chat_template,
                                          const nlohmann::ordered_json& messages, const PromptText& text);

/// What ends a text that a model writes: stop_tokens() of its folder `model`, or, if that names none, the
/// eos_token of the tokenizer; a zero, if texts are bytes. Without a folder the tokenizer's is asked. Throws
/// ConfigError, IoError.
std::set<std::int32_t> ends_of_texts(const PromptText& text, const std::string& tokenizer,
                                     const std::filesystem::path& model);

/// What the run's texts are read with: "bytes", a model's folder, or its tokenizer.json; empty if the run has
/// token ids and names no tokenizer.
std::string tokenizer_of_run(const RunConfig& config);

/// What train.samples asks for; nothing if it asks for nothing. Throws ConfigError that names the key, if a
/// prompt has no tokens, as many as `longest`, at which a sample ends, or one that is not in the vocabulary.
SamplePrompts read_sample_prompts(const RunConfig& config, std::int64_t longest, std::int64_t vocabulary);

}  // namespace strata
