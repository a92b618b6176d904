#include "engine/input/chat/chat_template.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "engine/input/chat/builtins.h"
#include "engine/input/chat/interpreter.h"
#include "engine/input/chat/parser.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/template_files.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

constexpr std::size_t kMostTemplateBytes = 4'000'000;

[[noreturn]] void refuse_at(const std::string& place, int line, const Problem& problem) {
  throw ConfigError(
      fmt::format("{}: line {}: {}", place, problem.line > 0 ? problem.line : line, problem.what()));
}

/// A message without keys that are null, and with its thoughts by the names that templates know.
nlohmann::ordered_json normalized_message(const nlohmann::ordered_json& message) {
  nlohmann::ordered_json some = nlohmann::ordered_json::object();
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) some[key] = value;
  }
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!some.contains(name)) continue;
    const nlohmann::ordered_json thoughts = some[name];
    nlohmann::ordered_json known = nlohmann::ordered_json::object();
    known["thinking"] = thoughts;
    known.update(some);
    known["reasoning_content"] = thoughts;
    return known;
  }
  return some;
}

Value normalized_messages(const nlohmann::ordered_json& messages) {
  if (!messages.is_array()) throw ConfigError("messages: a list is expected here");
  nlohmann::ordered_json normalized = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object()) throw ConfigError(fmt::format("messages[{}]: a map is expected here", i));
    normalized.push_back(normalized_message(messages[i]));
  }
  return from_json(normalized);
}

}  // namespace

struct ChatTemplate::Part {
  std::string place;
  Syntax syntax;

  static Part parse(const std::string& place, std::string_view source) {
    if (source.size() > kMostTemplateBytes)
      throw ConfigError(fmt::format("{}: {} bytes are more than a template has", place, source.size()));
    std::string buffer;
    try {
      return {place, parse_template(text::make_valid(source, buffer))};
    } catch (const Problem& problem) {
      refuse_at(place, 1, problem);
    }
  }
};

ChatTemplate::ChatTemplate(TemplateFiles files) : special_tokens_(std::move(files.special_tokens)) {
  StreamingHash hash;
  const auto add = [&hash](std::string_view text) {
    const std::uint64_t own = hash_text(text);
    hash.update(std::as_bytes(std::span(&own, 1)));
  };
  for (const auto& [name, text] : files.templates) {
    parts_.emplace(name, Part::parse(text.place, text.source));
    add(name);
    add(text.source);
  }
  for (const auto& [name, token] : special_tokens_) {
    add(name);
    add(token);
  }
  hash_ = hash.digest();
}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::read(const std::filesystem::path& folder) {
  return ChatTemplate(read_template_files(folder));
}

std::optional<ChatTemplate> ChatTemplate::find(const std::filesystem::path& folder) {
  std::optional<TemplateFiles> files = find_template_files(folder);
  if (!files) return std::nullopt;
  return ChatTemplate(std::move(*files));
}

ChatTemplate ChatTemplate::parse(std::string_view source, const std::string& name,
                                 SpecialTokens special_tokens) {
  return ChatTemplate(
      {.templates = {{"default", {name, std::string(source)}}}, .special_tokens = std::move(special_tokens)});
}

const ChatTemplate::Part& ChatTemplate::part(const RenderOptions& options) const {
  const auto of_tools = options.tools.is_null() ? parts_.end() : parts_.find("tool_use");
  if (of_tools != parts_.end()) return of_tools->second;
  const auto found = parts_.find("default");
  if (found == parts_.end())
    throw ConfigError(
        fmt::format("{}: there is no template of the name 'default'", parts_.begin()->second.place));
  return found->second;
}

bool ChatTemplate::has_generation(const RenderOptions& options) const {
  return part(options).syntax.has_generation;
}

Rendering ChatTemplate::render(const nlohmann::ordered_json& messages, const RenderOptions& options) const {
  const Part& chosen = part(options);
  int line = 1;
  try {
    Runtime runtime(options.limits);
    auto globals = std::make_shared<Scope>();
    add_functions(runtime, *globals, options.now_seconds);
    for (const auto& [name, token] : special_tokens_) globals->set(name, token);
    globals->set("documents", Value());
    for (const auto& [name, value] : options.variables.items()) globals->set(name, from_json(value));
    const Value conversation = normalized_messages(messages);
    globals->set("messages", conversation);
    globals->set("tools", from_json(options.tools));
    globals->set("add_generation_prompt", options.add_generation_prompt);
    const Meter::Use counted(runtime.meter());
    Interpreter interpreter(runtime, globals);
    try {
      return interpreter.run(chosen.syntax, conversation);
    } catch (const Problem&) {
      line = interpreter.line();
      throw;
    }
  } catch (const Problem& problem) {
    refuse_at(chosen.place, line, problem);
  }
}

}  // namespace strata::chat
