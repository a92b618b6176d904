// What of a conversation a model is trained on: the text that it has written itself. A plain function.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/chat/chat_template.h"

namespace strata::chat {

/// A conversation's text, with the spans that the assistant has written as `generated`: those of the
/// template's `generation` tags, if it has some. Else, for each message of the role "assistant", what the
/// template writes for the message behind the prompt to generate; the last message's goes to the text's end.
/// That is found by the passes of the template's loops over the messages, in time linear in their number;
/// where these do not tell it, by rendering the messages to each of the assistant's with it and without.
/// `options` must not ask for a prompt. Throws ConfigError as ChatTemplate::render() does, and with the
/// message's number where neither way tells what is the message's.
Rendering render_for_training(const ChatTemplate& chat_template, const nlohmann::ordered_json& messages,
                              const RenderOptions& options = {});

}  // namespace strata::chat
