// A document as token ids, and which of them are trained on: all of a text, what follows a prompt, and what
// the assistant says in a conversation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/chat/chat_template.h"
#include "engine/data/documents.h"
#include "engine/text/tokenizer.h"

namespace strata {

struct EncodedDocument {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> trained;  ///< of each id, 0 or 1
};

/// Immutable; use from any thread.
class DocumentEncoder {
 public:
  /// `end` stands behind each document but a conversation, whose template says how it ends. `conversations`
  /// writes these; nothing: they are refused. Both outlive this object.
  DocumentEncoder(const text::Tokenizer& tokenizer, std::optional<std::int32_t> end,
                  const chat::ChatTemplate* conversations);

  /// In place of what is there. Of a text in parts only the last has the end. An object has a "text";
  /// or a "prompt" and a "completion", each encoded by itself; or "messages" and perhaps "tools", as
  /// transformers' apply_chat_template() takes them. Throws ConfigError that names the document's place.
  void encode(const TextDocument& document, EncodedDocument& encoded) const;

 private:
  class Work;
  const text::Tokenizer& tokenizer_;
  std::optional<std::int32_t> end_;
  const chat::ChatTemplate* conversations_;
};

}  // namespace strata
