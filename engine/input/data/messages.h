// The messages of a conversation, as records of several forms have them. Plain functions.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace strata {

/// The list of messages under `key`, each with a role and a content: of a ShareGPT turn ("from", "value")
/// what it says in these words. Throws ConfigError if it is no list of such, or a message has parts that are
/// not text.
nlohmann::ordered_json read_messages(nlohmann::ordered_json list, const std::string& key);

bool is_of_assistant(const nlohmann::ordered_json& message);

/// Whether a message is trained on. An assistant's message is, unless "weight", "train", "training" or "loss"
/// forbids it. Throws ConfigError that names `place` if one of these keys says neither yes nor no. Throws it,
/// too, if the key says yes and the message is not the assistant's.
bool is_learned(const nlohmann::ordered_json& message, const std::string& place);

}  // namespace strata
