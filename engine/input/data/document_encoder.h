// A document as token ids, and which of them are trained on: all of a text, what follows a prompt, and what
// the assistant says in a conversation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/input/chat/chat_template.h"
#include "engine/input/data/documents.h"
#include "engine/input/text/tokenizer.h"

namespace strata {

/// What stands around each text, but a conversation, whose template says how it begins and ends.
struct TextBorders {
  std::vector<std::int32_t> begin = {};
  std::optional<std::int32_t> end = {};  ///< so that a model sees where a text ends
  std::string missing_end = {};          ///< a sentence: why an end that should be there is not; or empty
};

struct EncodedDocument {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> trained;  ///< of each id, 0 or 1
  DocumentKind kind = DocumentKind::text;
};

/// Immutable; use from any thread.
class DocumentEncoder {
 public:
  /// `conversations` writes these; nothing: they are refused. It and `tokenizer` outlive this object.
  /// `fields` are what records call theirs.
  DocumentEncoder(const text::Tokenizer& tokenizer, TextBorders borders,
                  const chat::ChatTemplate* conversations, RecordFields fields = RecordFields());

  /// In place of what is there. Of a text in parts the first has the begin and the last has the end. An
  /// object is what read_record() reads (record.h); a prompt and its completion are one text. Throws
  /// ConfigError that names the document's place.
  void encode(const TextDocument& document, EncodedDocument& encoded) const;

 private:
  class Work;
  const text::Tokenizer& tokenizer_;
  TextBorders borders_;
  const chat::ChatTemplate* conversations_;
  RecordFields fields_;
};

}  // namespace strata
