// What of a conversation a model is trained on: the text that it has written itself. A plain function.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/chat/chat_template.h"

namespace strata::chat {

/// A conversation's text, with the spans that the assistant has written as `generated`: those of the
/// template's `generation` tags, if it has some. Else, for each message of the role "assistant", what the
/// text has more with the message than without it, behind the prompt to generate. `options` must not ask for
/// such a prompt. Throws ConfigError as ChatTemplate::render() does, and with the message's number where what
/// stands before a message, or the message, changes with what follows.
Rendering render_for_training(const ChatTemplate& chat_template, const nlohmann::ordered_json& messages,
                              const RenderOptions& options = {});

}  // namespace strata::chat
