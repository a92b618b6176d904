// A record of data as what is trained on: records of many forms, as their writers have them, become a text, a
// prompt with its completion, or a conversation. Plain functions.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/input/chat/chat_template.h"
#include "engine/input/chat/span.h"
#include "engine/input/data/record_fields.h"

namespace strata {

struct Record {
  DocumentKind kind = DocumentKind::text;
  std::string prompt;      ///< what stands before the completion and is not trained on; a text has none
  std::string completion;  ///< or the text
  nlohmann::ordered_json messages;  ///< of a conversation, each with a role; null: it is none
  chat::RenderOptions options;  ///< of the conversation: its tools, and what else its template may ask for
  std::vector<bool> are_learned = {};  ///< of each message of the assistant's, whether it is trained on
};

/// Reads one of these forms:
/// - "text";
/// - "prompt" and "completion": two texts, or TRL's two lists of messages; only the completion is trained on;
/// - "messages", or ShareGPT's "conversations" with "from" and "value". "system", "tools" (a list, or its
/// JSON
///   text) and "chat_template_kwargs" may stand beside them. A message may say with "weight", "train",
///   "training" or "loss" whether it is trained on;
/// - Alpaca's "instruction", "input" and "output": a conversation with `has_template`, else Stanford's
/// prompt.
///
/// A conversation's contents are texts, or lists of parts of text. Throws ConfigError for any other
/// record, and for what a conversation says that is not followed, such as images.
Record read_record(nlohmann::ordered_json object, const RecordFields& fields, bool has_template);

/// The spans of what a conversation's assistant says that are trained on. Throws ConfigError if some are not,
/// and there is not one span for each message of the assistant.
std::vector<chat::Span> learned_spans(std::vector<chat::Span> generated,
                                      const std::vector<bool>& are_learned);

}  // namespace strata
