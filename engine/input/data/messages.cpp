#include "engine/input/data/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "base/json_text.h"

namespace strata {
namespace {

using nlohmann::ordered_json;

struct Speaker {
  std::string_view name, role;
};
constexpr auto kSpeakers = std::to_array<Speaker>({{"human", "user"},
                                                   {"user", "user"},
                                                   {"gpt", "assistant"},
                                                   {"assistant", "assistant"},
                                                   {"chatgpt", "assistant"},
                                                   {"model", "assistant"},
                                                   {"system", "system"},
                                                   {"tool", "tool"},
                                                   {"observation", "tool"}});

/// Puts a turn's speaker and words first, as a message has them; what else it says stays.
ordered_json message_of_turn(const ordered_json& turn, const std::string& place) {
  const ordered_json& from = turn.at("from");
  const auto speaker = std::ranges::find_if(kSpeakers, [&](const Speaker& known) {
    return from.is_string() && from.get<std::string>() == known.name;
  });
  if (speaker == kSpeakers.end())
    throw ConfigError(
        fmt::format("{}: \"from\" is {}, and known are human, gpt, system and tool", place, json_text(from)));
  if (!turn.contains("value")) throw ConfigError(fmt::format("{}: \"value\" is missing", place));
  ordered_json message =
      ordered_json::object({{"role", std::string(speaker->role)}, {"content", turn.at("value")}});
  for (const auto& [key, value] : turn.items())
    if (key != "from" && key != "value") message[key] = value;
  return message;
}

void require_text_parts(const ordered_json& message, const std::string& place) {
  const ordered_json content = message.value("content", ordered_json());
  if (content.is_object())
    throw ConfigError(fmt::format("{}: \"content\" is no text and no list of parts", place));
  if (!content.is_array()) return;
  for (const ordered_json& part : content) {
    const ordered_json type =
        part.is_object() ? part.value("type", ordered_json("text")) : ordered_json("text");
    if (type == "text" || type == "thinking") continue;
    throw ConfigError(fmt::format(
        "{}: \"content\" has a part of type {}, and text alone is trained on: leave such conversations out",
        place, json_text(type)));
  }
}

}  // namespace

ordered_json read_messages(ordered_json list, const std::string& key) {
  if (!list.is_array()) throw ConfigError(fmt::format("\"{}\" is no list of messages", key));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", key, i);
    if (!list[i].is_object()) throw ConfigError(fmt::format("{}: a message is expected here", place));
    if (list[i].contains("from") && !list[i].contains("role")) list[i] = message_of_turn(list[i], place);
    require_text_parts(list[i], place);
  }
  return list;
}

bool is_of_assistant(const ordered_json& message) {
  return message.value("role", ordered_json()) == "assistant";
}

bool is_learned(const ordered_json& message, const std::string& place) {
  bool is_learned = true;
  for (const char* key : {"weight", "train", "training", "loss"}) {
    const ordered_json value = message.value(key, ordered_json());
    if (value.is_null()) continue;
    const bool is_yes = value == true || value == 1, is_no = value == false || value == 0;
    if (!is_yes && !is_no)
      throw ConfigError(fmt::format("{}: \"{}\" is {}, and only 0, 1, false and true are followed", place,
                                    key, json_text(value)));
    if (is_yes && std::string_view(key) != "weight" && !is_of_assistant(message))
      throw ConfigError(fmt::format(
          "{}: \"{}\" asks to train on it, and only what the role assistant says is trained on", place, key));
    is_learned = is_learned && is_yes;
  }
  return is_learned;
}

}  // namespace strata
