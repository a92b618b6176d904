// The chat templates and special tokens that a model's folder has, as files of Hugging Face hold them. Plain
// functions.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "engine/input/chat/chat_template.h"

namespace strata::chat {

struct TemplateText {
  std::string place;  ///< the file, and the place in it
  std::string source;
};

struct TemplateFiles {
  std::map<std::string, TemplateText> templates;  ///< by name; the only one's is "default"
  SpecialTokens special_tokens;
};

/// By name, such as eos_token: those that tokenizer_config.json gives, and special_tokens_map.json in folders
/// whose tokenizer_config.json lists no added tokens. Throws ConfigError that names the file and the place in
/// it for what is no token; IoError if a file cannot be read.
SpecialTokens find_special_tokens(const std::filesystem::path& folder);

/// Nothing if the folder has no template. Throws ConfigError that names the file and the place in it for what
/// is none; IoError if a file cannot be read.
std::optional<TemplateFiles> find_template_files(const std::filesystem::path& folder);
/// Throws ConfigError that names the file and the place in it if there is no template, or for what is no
/// template; IoError if a file cannot be read.
TemplateFiles read_template_files(const std::filesystem::path& folder);

}  // namespace strata::chat
