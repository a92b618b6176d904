#include "engine/data/document_encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_text.h"
#include "engine/chat/trained_text.h"
#include "engine/text/token_places.h"

namespace strata {
namespace {

using nlohmann::ordered_json;

const std::string& text_of(const ordered_json& object, const char* key) {
  if (!object.at(key).is_string()) throw ConfigError(fmt::format("\"{}\" is not a text", key));
  return object.at(key).get_ref<const std::string&>();
}

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

}  // namespace

class DocumentEncoder::Work {
 public:
  Work(const DocumentEncoder& encoder, EncodedDocument& encoded) : encoder_(encoder), encoded_(encoded) {
    encoded.ids.clear();
    encoded.trained.clear();
  }

  void add_object(const ordered_json& object) {
    const auto has = [&](const char* key) { return object.is_object() && object.contains(key); };
    // Tables that were written as lines have a null where there is nothing.
    const auto says = [&](const char* key) { return has(key) && !object.at(key).is_null(); };
    const bool is_text = says("text"), is_talk = says("messages"),
               is_prompt = says("completion") || (says("prompt") && has("completion"));
    if (int{is_text} + int{is_prompt} + int{is_talk} != 1 || (is_prompt && !has("prompt")))
      throw ConfigError(
          "expected an object with \"text\", or with \"prompt\" and \"completion\", or with \"messages\"" +
          keys_of(object));
    if (is_talk) return add_conversation(object);
    if (is_text) {
      add(text_of(object, "text"), true);
    } else {
      add(text_of(object, "prompt"), false);
      add(text_of(object, "completion"), true);
    }
    add_end();
  }

  void add_file(std::string_view text, bool goes_on) {
    if (text.find('\0') != std::string_view::npos)
      throw ConfigError(
          "there is a zero byte in it, so this is no text; unpack it, or name the files of text only");
    add(text, true);
    if (!goes_on) add_end();
  }

 private:
  void add(std::string_view text, bool is_trained) {
    encoder_.tokenizer_.encode(text, encoded_.ids, text::AddSpecial::no);
    encoded_.trained.resize(encoded_.ids.size(), is_trained ? 1 : 0);
  }

  void add_end() {
    if (!encoder_.end_ || encoded_.ids.empty()) return;
    encoded_.ids.push_back(*encoder_.end_);
    encoded_.trained.push_back(1);
  }

  void add_conversation(const ordered_json& object) {
    if (encoder_.conversations_ == nullptr)
      throw ConfigError(
          "\"messages\" need the model's chat template, and beside its tokenizer.json there is none");
    chat::RenderOptions options;
    if (object.contains("tools")) options.tools = object.at("tools");
    const chat::Rendering talk =
        chat::render_for_training(*encoder_.conversations_, object.at("messages"), options);
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

DocumentEncoder::DocumentEncoder(const text::Tokenizer& tokenizer, std::optional<std::int32_t> end,
                                 const chat::ChatTemplate* conversations)
    : tokenizer_(tokenizer), end_(end), conversations_(conversations) {}

void DocumentEncoder::encode(const TextDocument& document, EncodedDocument& encoded) const {
  ordered_json object;
  if (document.line > 0) object = parse_ordered_json(document.source, {document.file->path(), document.line});
  try {
    Work work(*this, encoded);
    document.line > 0 ? work.add_object(object) : work.add_file(document.source, document.goes_on);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", document.place(), error.what()));
  }
}

}  // namespace strata
