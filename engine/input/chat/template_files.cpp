#include "engine/input/chat/template_files.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/excerpt.h"
#include "base/file.h"
#include "base/json_text.h"
#include "engine/input/text/json_field.h"

namespace strata::chat {
namespace {

using text::JsonField;
namespace fs = std::filesystem;

constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};
// Tokens that were added to a vocabulary are listed one by one.
constexpr JsonBudget kConfigBudget{.bytes = 50'000'000, .values = 4'000'000};

/// A token is a text, or a map with the text as `content`.
void read_special_tokens(const JsonField& field, SpecialTokens& tokens) {
  for (const char* name : kSpecialTokens) {
    const auto token = field.find(name);
    if (!token) continue;
    tokens[name] = token->value().is_object() ? token->at("content").text() : token->text();
  }
}

void read_config_templates(const JsonField& config, const std::string& file, TemplateFiles& files) {
  const auto field = config.find("chat_template");
  if (!field) return;
  if (field->value().is_string()) {
    files.templates["default"] = {file + ": chat_template", field->text()};
    return;
  }
  if (!field->value().is_array())
    field->refuse("a template, or a list of templates with names, is expected here");
  for (const JsonField& each : field->elements()) {
    const std::string name = each.at("name").text();
    files.templates[name] = {fmt::format("{}: chat_template '{}'", file, excerpt(name)),
                             each.at("template").text()};
  }
}

void read_template_file(const fs::path& file, const std::string& name, TemplateFiles& files) {
  files.templates[name] = {file.string(), read_file(file)};
}

/// A folder's tokenizer_config.json, if it has one.
struct TokenizerConfig {
  std::string file;
  std::optional<nlohmann::json> json;

  explicit TokenizerConfig(const fs::path& folder) : file((folder / "tokenizer_config.json").string()) {
    if (is_there(file)) json = read_json_object(file, kConfigBudget);
  }
};

SpecialTokens special_tokens_of(const fs::path& folder, const TokenizerConfig& config) {
  SpecialTokens tokens;
  if (config.json) read_special_tokens(JsonField(*config.json, config.file), tokens);
  // Older folders have their tokens there, which count then.
  const fs::path map_file = folder / "special_tokens_map.json";
  if (!(config.json && config.json->contains("added_tokens_decoder")) && is_there(map_file)) {
    const nlohmann::json json = read_json_object(map_file, kConfigBudget);
    read_special_tokens(JsonField(json, map_file.string()), tokens);
  }
  return tokens;
}

}  // namespace

SpecialTokens find_special_tokens(const fs::path& folder) {
  return special_tokens_of(folder, TokenizerConfig(folder));
}

std::optional<TemplateFiles> find_template_files(const fs::path& folder) {
  const TokenizerConfig config(folder);
  TemplateFiles files{.templates = {}, .special_tokens = special_tokens_of(folder, config)};
  if (config.json) read_config_templates(JsonField(*config.json, config.file), config.file, files);
  const fs::path default_file = folder / "chat_template.jinja", more = folder / "additional_chat_templates";
  if (is_there(default_file) || is_there(more)) files.templates.clear();
  if (is_there(default_file)) read_template_file(default_file, "default", files);
  if (is_there(more)) {
    for (const std::string& name : FileSystem::real().list(more)) {
      if (const fs::path file = name; file.extension() == ".jinja")
        read_template_file(more / file, file.stem(), files);
    }
  }
  if (files.templates.empty()) return std::nullopt;
  return files;
}

TemplateFiles read_template_files(const fs::path& folder) {
  std::optional<TemplateFiles> files = find_template_files(folder);
  if (files) return std::move(*files);
  throw ConfigError(
      fmt::format("{}: there is no chat template: neither chat_template.jinja nor 'chat_template' in "
                  "tokenizer_config.json",
                  folder.string()));
}

}  // namespace strata::chat
