// Conversations as text, by the chat template of a model of Hugging Face: the same text as the Python package
// transformers renders. Templates are written in Jinja; the subset that such templates use is done, and the
// rest is refused when the template is read, or when a rendering comes to it. Immutable; use from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/input/chat/meter.h"
#include "engine/input/chat/span.h"

namespace strata::chat {

struct Syntax;
struct TemplateFiles;

/// bos_token, eos_token and the like, by these names.
using SpecialTokens = std::map<std::string, std::string>;

struct RenderOptions {
  bool add_generation_prompt = false;
  nlohmann::ordered_json tools;      ///< a list of JSON schemas, or null
  nlohmann::ordered_json variables;  ///< a map of what else the template may ask for, or null
  std::optional<std::int64_t>
      now_seconds;  ///< what strftime_now() takes for now, since 1970; nothing: the clock
  Limits limits;
};

class ChatTemplate {
 public:
  /// Reads a model's folder: chat_template.jinja and the templates in additional_chat_templates, or else
  /// those of tokenizer_config.json. The special tokens are from tokenizer_config.json. Throws ConfigError
  /// that names the file and the line for what is damaged or not supported, IoError if a file cannot be read.
  static ChatTemplate read(const std::filesystem::path& folder);
  /// The template that read() gives, or nothing if the folder has none. Throws as read() does.
  static std::optional<ChatTemplate> find(const std::filesystem::path& folder);
  /// From a template's text. Throws ConfigError that names `name` and the line.
  static ChatTemplate parse(std::string_view source, const std::string& name,
                            SpecialTokens special_tokens = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// `messages` is a list of maps with "role", "content" and whatever else the template knows. As in
  /// transformers, keys that are null are left out, and what a message has thought is there by the names
  /// "reasoning_content" and "thinking" if it has "reasoning". With tools, the template of the name
  /// "tool_use" is taken if there is one. Throws ConfigError that names the template and the line.
  Rendering render(const nlohmann::ordered_json& messages, const RenderOptions& options = {}) const;

  /// Differs where the templates' texts or the special tokens do, which decide all that it writes.
  std::uint64_t hash() const { return hash_; }

  /// Whether the template that render() takes marks what the model has written by `generation` tags.
  bool has_generation(const RenderOptions& options = {}) const;

 private:
  struct Part;
  explicit ChatTemplate(TemplateFiles files);
  const Part& part(const RenderOptions& options) const;

  std::map<std::string, Part> parts_;
  SpecialTokens special_tokens_;
  std::uint64_t hash_ = 0;
};

}  // namespace strata::chat
