// Texts, prompts and conversations in lines and in an array, as ids and what of them is trained.
#include <array>
#include <vector>

#include "engine/config/choices.h"
#include "engine/input/data/document_encoder.h"
#include "tests/fuzz/target.h"

namespace strata::fuzz {
namespace {

/// They know a few letters, and the second composes characters; all else is unknown.
constexpr std::array kTokenizers = {
    R"({"model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "▁": 3, "ab": 4, "\n": 5},
                  "merges": [["a", "b"]]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "added_tokens": [{"id": 6, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}]})",
    R"({"model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, " ": 3, "é": 4, "e": 5},
                  "merges": []},
        "normalizer": {"type": "NFC"}})"};
constexpr const char* kTemplate =
    "{% for m in messages %}<s>{{ m.role }} {{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant {% endif %}";

/// None of them may be refused: then nothing would be tried.
std::vector<text::Tokenizer> parse_tokenizers() {
  std::vector<text::Tokenizer> tokenizers;
  try {
    for (const char* json : kTokenizers) tokenizers.push_back(text::Tokenizer::parse(json, "tokenizer.json"));
  } catch (const ConfigError& error) {
    require(false, error.what());
  }
  return tokenizers;
}

void encode_documents(std::string_view input) {
  static const std::vector<text::Tokenizer> tokenizers = parse_tokenizers();
  const std::array files = {write("documents.jsonl", input).string(),
                            write("documents.json", input).string()};
  const chat::ChatTemplate conversations = chat::ChatTemplate::parse(kTemplate, "t");
  for (const text::Tokenizer& tokenizer : tokenizers) {
    const DocumentEncoder encoder(tokenizer, {.end = 0}, &conversations);
    DocumentReader reader(files);
    EncodedDocument encoded;
    expect_read_or_refused([&] {
      for (TextDocument document; reader.next(document);) {
        expect_read_or_refused([&] {
          encoder.encode(document, encoded);
          require(encoded.ids.size() == encoded.trained.size(), "there is a mark for each id");
        });
      }
    });
  }
}

}  // namespace
}  // namespace strata::fuzz

STRATA_FUZZ_TARGET(documents, strata::fuzz::encode_documents)
