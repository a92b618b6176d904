// What of a conversation a model is trained on: the text that it has written itself. A plain function.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/input/chat/chat_template.h"

namespace strata::chat {

/// A conversation's text, with the spans that the assistant has written as `generated`. If the template has
/// `generation` tags, these are the spans. Else a span is what the template writes for a message of the role
/// "assistant" behind the prompt to generate; the last message's span goes to the text's end.
///
/// Spans are found by the passes of the template's loops over the messages, in time linear in their number.
/// If the passes do not tell a span, the messages are rendered up to that message, with the message and
/// without. REQUIRES: `options` do not ask for a prompt. Throws ConfigError as ChatTemplate::render() does,
/// and with the message's number if neither way tells its span.
Rendering render_for_training(const ChatTemplate& chat_template, const nlohmann::ordered_json& messages,
                              const RenderOptions& options = {});

}  // namespace strata::chat
