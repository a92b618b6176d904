#include "engine/input/data/document_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "engine/input/chat/trained_text.h"
#include "engine/input/data/record.h"
#include "engine/input/text/token_places.h"

namespace strata {
namespace {

using nlohmann::ordered_json;

}  // namespace

class DocumentEncoder::Work {
 public:
  Work(const DocumentEncoder& encoder, EncodedDocument& encoded) : encoder_(encoder), encoded_(encoded) {
    encoded.ids.clear();
    encoded.trained.clear();
    encoded.kind = DocumentKind::text;
  }

  void add_object(ordered_json object) {
    Record record = read_record(std::move(object), encoder_.fields_, encoder_.conversations_ != nullptr);
    encoded_.kind = record.kind;
    if (!record.messages.is_null()) return add_conversation(record);
    if (record.kind == DocumentKind::text) {
      add(record.completion, true);
      add_begin(true);
    } else {
      add_completion(record.prompt, record.completion);
    }
    add_end();
  }

  void add_file(std::string_view text, bool is_later, bool goes_on) {
    if (text.find('\0') != std::string_view::npos)
      throw ConfigError(
          "there is a zero byte in it, so this is no text; unpack it, or name the files of text only");
    add(text, true);
    if (!is_later) add_begin(true);
    if (!goes_on) add_end();
  }

 private:
  void add(std::string_view text, bool is_trained) {
    encoder_.tokenizer_.encode(text, encoded_.ids, text::AddSpecial::no);
    encoded_.trained.resize(encoded_.ids.size(), is_trained ? 1 : 0);
  }

  /// As one text: many tokenizers put a blank before a text, which the completion has not.
  void add_completion(const std::string& prompt, const std::string& completion) {
    const std::string text = prompt + completion;
    add(text, false);
    train_on(text, std::vector<text::Range>{{prompt.size(), text.size()}});
    add_begin(false);
  }

  void add_begin(bool is_trained) {
    if (encoded_.ids.empty()) return;
    const std::vector<std::int32_t>& begin = encoder_.borders_.begin;
    encoded_.ids.insert(encoded_.ids.begin(), begin.begin(), begin.end());
    encoded_.trained.insert(encoded_.trained.begin(), begin.size(), is_trained ? 1 : 0);
  }

  void add_end() {
    const TextBorders& borders = encoder_.borders_;
    if (!borders.missing_end.empty()) throw ConfigError(borders.missing_end);
    if (!borders.end || encoded_.ids.empty()) return;
    encoded_.ids.push_back(*borders.end);
    encoded_.trained.push_back(1);
  }

  void add_conversation(const Record& record) {
    if (encoder_.conversations_ == nullptr)
      throw ConfigError(
          "\"messages\" need the model's chat template, and beside its tokenizer.json there is none");
    chat::Rendering talk =
        chat::render_for_training(*encoder_.conversations_, record.messages, record.options);
    talk.generated = learned_spans(std::move(talk.generated), record.are_learned);
    add(talk.text, false);
    std::vector<text::Range> said;
    for (const auto& [begin, end] : talk.generated) said.push_back({begin, end});
    train_on(talk.text, said);
  }

  /// `ids` are the text's alone.
  void train_on(std::string_view text, std::span<const text::Range> stretches) {
    const auto tokens = text::tokens_of_stretches(encoder_.tokenizer_, text, encoded_.ids, stretches);
    if (!tokens)
      throw ConfigError(
          "the tokenizer changes this text, so that it cannot be said which tokens are trained on: write it "
          "in "
          "Unicode's composed form (NFC)");
    for (const text::Range& range : *tokens)
      std::fill(encoded_.trained.begin() + static_cast<std::ptrdiff_t>(range.begin),
                encoded_.trained.begin() + static_cast<std::ptrdiff_t>(range.end), std::uint8_t{1});
  }

  const DocumentEncoder& encoder_;
  EncodedDocument& encoded_;
};

DocumentEncoder::DocumentEncoder(const text::Tokenizer& tokenizer, TextBorders borders,
                                 const chat::ChatTemplate* conversations, RecordFields fields)
    : tokenizer_(tokenizer),
      borders_(std::move(borders)),
      conversations_(conversations),
      fields_(std::move(fields)) {}

void DocumentEncoder::encode(const TextDocument& document, EncodedDocument& encoded) const {
  ordered_json object;
  if (document.line > 0) object = parse_ordered_json(document.source, {document.file->path(), document.line});
  try {
    Work work(*this, encoded);
    document.line > 0 ? work.add_object(std::move(object))
                      : work.add_file(document.source, document.is_later, document.goes_on);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", document.place(), error.what()));
  }
}

}  // namespace strata
