#include "engine/chat/trained_text.h"

#include <fmt/format.h>

#include "base/error.h"

namespace strata::chat {
namespace {

using nlohmann::ordered_json;

ordered_json first_messages(const ordered_json& messages, std::size_t count) {
  ordered_json first = ordered_json::array();
  for (std::size_t i = 0; i < count; ++i) first.push_back(messages[i]);
  return first;
}

bool is_of_assistant(const ordered_json& message) {
  return message.is_object() && message.value("role", ordered_json()) == "assistant";
}

/// What the template writes for the prompt to generate message `index`.
std::string text_before(const ChatTemplate& chat_template, const ordered_json& messages, std::size_t index,
                        RenderOptions options) {
  options.add_generation_prompt = true;
  try {
    return chat_template.render(first_messages(messages, index), options).text;
  } catch (const ConfigError& error) {
    if (index > 0) throw;
    throw ConfigError(fmt::format(
        "messages[0]: the template cannot write what stands before a conversation that the assistant "
        "begins ({}): leave such conversations out, or give the template 'generation' tags",
        error.what()));
  }
}

/// The span of the assistant's message `index` in `text`, which is all messages' text.
Span span_of(const ChatTemplate& chat_template, const ordered_json& messages, std::size_t index,
             const std::string& text, const RenderOptions& options) {
  const std::string before = text_before(chat_template, messages, index, options);
  const std::string with = chat_template.render(first_messages(messages, index + 1), options).text;
  if (!with.starts_with(before)) {
    throw ConfigError(fmt::format(
        "messages[{}]: what the template writes before this message, with the prompt to generate, is not "
        "what it "
        "writes before the message: what is trained cannot be told without the template's 'generation' tags",
        index));
  }
  if (!text.starts_with(with)) {
    throw ConfigError(
        fmt::format("messages[{}]: the template writes the messages to this one in another way where others "
                    "follow: what is "
                    "trained cannot be told without the template's 'generation' tags",
                    index));
  }
  return {before.size(), with.size()};
}

}  // namespace

Rendering render_for_training(const ChatTemplate& chat_template, const ordered_json& messages,
                              const RenderOptions& options) {
  Rendering rendering = chat_template.render(messages, options);
  if (chat_template.has_generation(options)) return rendering;
  rendering.generated.clear();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (is_of_assistant(messages[i]))
      rendering.generated.push_back(span_of(chat_template, messages, i, rendering.text, options));
  }
  return rendering;
}

}  // namespace strata::chat
