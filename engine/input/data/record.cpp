#include "engine/input/data/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "engine/input/data/messages.h"

namespace strata {
namespace {

using nlohmann::ordered_json;

/// For a sentence: "; it has "a", "b"".
std::string keys_of(const ordered_json& object) {
  constexpr std::size_t kLongest = 40;
  std::vector<std::string> keys;
  if (object.is_object())
    for (const auto& [key, value] : object.items())
      if (!value.is_null() && key.size() <= kLongest) keys.push_back(json_text(key));
  constexpr std::size_t kMost = 8;
  keys.resize(std::min(keys.size(), kMost));
  return keys.empty() ? "" : fmt::format("; it has {}", fmt::join(keys, ", "));
}

bool says_nothing(const ordered_json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_structured() && value.empty());
}

ordered_json message_of(const char* role, const std::string& content) {
  return ordered_json::object({{"role", std::string(role)}, {"content", content}});
}

/// Stanford Alpaca's prompts (github.com/tatsu-lab/stanford_alpaca, train.py).
std::string stanford_prompt(const std::string& instruction, const std::string& input) {
  if (input.empty())
    return fmt::format(
        "Below is an instruction that describes a task. Write a response that appropriately completes the "
        "request.\n\n### Instruction:\n{}\n\n### Response:",
        instruction);
  return fmt::format(
      "Below is an instruction that describes a task, paired with an input that provides further context. "
      "Write a "
      "response that appropriately completes the request.\n\n### Instruction:\n{}\n\n### Input:\n{}\n\n### "
      "Response:",
      instruction, input);
}

class RecordReader {
 public:
  RecordReader(ordered_json object, const RecordFields& fields, bool has_template)
      : object_(std::move(object)), fields_(fields), has_template_(has_template) {}

  Record read() {
    record_.kind = kind();
    if (record_.kind == DocumentKind::text) {
      record_.completion = text("text");
      return std::move(record_);
    }
    refuse_what_is_not_followed();
    switch (record_.kind) {
      case DocumentKind::text:
        break;
      case DocumentKind::prompt:
        read_prompt();
        break;
      case DocumentKind::messages:
        read_conversation(take_messages(fields_.key("messages")));
        break;
      case DocumentKind::sharegpt:
        read_conversation(take_messages("conversations"));
        break;
      case DocumentKind::instruction:
        read_instruction();
        break;
    }
    return std::move(record_);
  }

 private:
  DocumentKind kind() const {
    const auto presence = [&](const std::string& key) {
      if (!object_.is_object() || !object_.contains(key)) return Presence::absent;
      return object_.at(key).is_null() ? Presence::null : Presence::given;
    };
    const std::vector<DocumentKind> kinds = fields_.kinds(presence);
    const bool has_prompt = presence(fields_.key("prompt")) != Presence::absent;
    if (kinds.size() == 1 && (kinds.front() != DocumentKind::prompt || has_prompt)) return kinds.front();
    throw ConfigError(
        "expected an object with \"text\", or \"prompt\" and \"completion\", or \"messages\", or ShareGPT's "
        "\"conversations\", or Alpaca's \"instruction\" and \"output\", and with one of these only" +
        keys_of(object_) + "; data.fields says which keys count");
  }

  const ordered_json& at(const std::string& field) const { return object_.at(fields_.key(field)); }
  /// Null if it is not there.
  ordered_json find(const std::string& field) const {
    return object_.value(fields_.key(field), ordered_json());
  }

  const std::string& text(const std::string& field) const {
    if (!at(field).is_string()) throw ConfigError(fmt::format("\"{}\" is not a text", fields_.key(field)));
    return at(field).get_ref<const std::string&>();
  }
  /// Empty if it is not there or null.
  std::string text_if_any(const std::string& field) const { return find(field).is_null() ? "" : text(field); }

  /// What changes what is meant by a record, and is not followed.
  void refuse_what_is_not_followed() const {
    constexpr std::array kKeys = {"functions", "function_call", "image",  "images", "video",
                                  "videos",    "audio",         "audios", "chosen", "rejected"};
    const auto refuse = [&](const char* key, const char* what) {
      if (!fields_.uses(key) && !says_nothing(object_.value(key, ordered_json())))
        throw ConfigError(fmt::format("\"{}\" {}", key, what));
    };
    for (const char* key : kKeys)
      refuse(key, "stands beside what is trained on and is not followed: leave such records out, or the key");
    if (record_.kind == DocumentKind::instruction)
      refuse("history",
             "stands beside the instruction and is not followed: write such records as \"messages\"");
    if (record_.kind == DocumentKind::prompt && fields_.uses("instruction"))
      refuse("input",
             "belongs to the instruction, and data.fields leaves it out: name the fields instruction, "
             "input and output there");
  }

  void read_prompt() {
    if (at("prompt").is_array() != at("completion").is_array()) {
      (void)text("prompt");
      (void)text("completion");
    }
    if (at("prompt").is_array()) return read_prompting_conversation();
    refuse_system();
    record_.prompt = text("prompt");
    record_.completion = text("completion");
  }

  void refuse_system() const {
    if (!text_if_any("system").empty())
      throw ConfigError(
          fmt::format("\"{}\" needs a conversation: write it into the prompt", fields_.key("system")));
  }

  void read_prompting_conversation() {
    ordered_json messages = take_messages(fields_.key("prompt"));
    const std::size_t prompting = messages.size();
    const ordered_json completion = take_messages(fields_.key("completion"));
    if (std::ranges::none_of(completion, is_of_assistant))
      throw ConfigError(fmt::format("\"{}\" has no message of the assistant", fields_.key("completion")));
    messages.insert(messages.end(), completion.begin(), completion.end());
    read_conversation(std::move(messages), prompting);
  }

  void read_instruction() {
    const std::string& instruction = text("instruction");
    const std::string& output = text("output");
    const std::string input = text_if_any("input");
    if (has_template_) {
      const std::string asked = input.empty() ? instruction : instruction + "\n" + input;
      return read_conversation(
          ordered_json::array({message_of("user", asked), message_of("assistant", output)}));
    }
    refuse_system();
    record_.prompt = stanford_prompt(instruction, input);
    record_.completion = output;
  }

  ordered_json take_messages(const std::string& key) {
    return read_messages(std::move(object_.at(key)), key);
  }

  /// Nothing of the first `prompting` messages is trained on.
  void read_conversation(ordered_json messages, std::size_t prompting = 0) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const bool is_learned = strata::is_learned(messages[i], fmt::format("message {}", i));
      if (is_of_assistant(messages[i])) record_.are_learned.push_back(is_learned && i >= prompting);
    }
    if (const std::string system = text_if_any("system"); !system.empty()) {
      if (!messages.empty() && messages[0].value("role", ordered_json()) == "system")
        throw ConfigError(fmt::format("\"{}\" stands beside a message of the role system: keep one of them",
                                      fields_.key("system")));
      messages.insert(messages.begin(), message_of("system", system));
    }
    record_.messages = std::move(messages);
    record_.options.tools = tools();
    record_.options.variables = variables();
  }

  ordered_json tools() const {
    const std::string key = fields_.key("tools");
    ordered_json tools = find("tools");
    if (tools.is_string())
      tools = says_nothing(tools)
                  ? ordered_json()
                  : parse_ordered_json(tools.get_ref<const std::string&>(), "\"" + key + "\"");
    if (tools.is_null()) return tools;
    const bool are_objects = tools.is_array() && std::ranges::all_of(tools, [](const ordered_json& tool) {
                               return tool.is_object();
                             });
    if (!are_objects) throw ConfigError(fmt::format("\"{}\" is no list of objects, one for each tool", key));
    return tools;
  }

  ordered_json variables() const {
    const char* const key = "chat_template_kwargs";
    ordered_json variables = object_.value(key, ordered_json());
    if (!variables.is_null() && !variables.is_object())
      throw ConfigError(fmt::format("\"{}\" is no object", key));
    return variables;
  }

  ordered_json object_;
  const RecordFields& fields_;
  bool has_template_;
  Record record_;
};

}  // namespace

Record read_record(ordered_json object, const RecordFields& fields, bool has_template) {
  return RecordReader(std::move(object), fields, has_template).read();
}

std::vector<chat::Span> learned_spans(std::vector<chat::Span> generated,
                                      const std::vector<bool>& are_learned) {
  if (std::ranges::all_of(are_learned, [](bool is) { return is; })) return generated;
  if (generated.size() != are_learned.size())
    throw ConfigError(
        fmt::format("some of the assistant's messages are not to be trained on, and the chat template marks "
                    "{} spans for {} "
                    "messages: which of them are those cannot be told",
                    generated.size(), are_learned.size()));
  std::vector<chat::Span> learned;
  for (std::size_t i = 0; i < generated.size(); ++i)
    if (are_learned[i]) learned.push_back(generated[i]);
  return learned;
}

}  // namespace strata
