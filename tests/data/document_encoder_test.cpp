// Documents as ids and marks: conversations have those that transformers makes of them
// (make_conversations.py).
#include "engine/data/document_encoder.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json_text.h"
#include "engine/chat/chat_template.h"
#include "tests/data/corpus.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

std::filesystem::path tests_folder() {
  return test::source_folder() / "tests";
}
text::Tokenizer tokenizer_of_tests(const std::string& family) {
  return text::Tokenizer::read(tests_folder() / "text/goldens" / (family + ".tokenizer.json"));
}

class Conversations : public ::testing::Test {
 protected:
  /// Encodes a file that has this one line.
  EncodedDocument encode(const text::Tokenizer& tokenizer, const std::string& line) const {
    const std::vector<std::string> files = {corpus_.write("talk.jsonl", line)};
    TextDocument document;
    DocumentReader(files).next(document);
    EncodedDocument encoded;
    DocumentEncoder(tokenizer, 0, &chat_).encode(document, encoded);
    return encoded;
  }

  Corpus corpus_;
  chat::ChatTemplate chat_ = chat::ChatTemplate::parse(
      read_file(tests_folder() / "chat/templates/chatml_generation.jinja"), "chatml_generation.jinja");
};

/// STRATA_TEST_CONVERSATIONS names a file of more, which make_conversations.py makes.
TEST_F(Conversations, HaveTheIdsAndTheMaskOfTheOriginal) {
  const char* more = std::getenv("STRATA_TEST_CONVERSATIONS");  // NOLINT(concurrency-mt-unsafe)
  const std::string goldens =
      read_file(more != nullptr ? more : tests_folder() / "data/goldens/conversations.json");
  const nlohmann::ordered_json families = parse_ordered_json(goldens, "conversations.json");
  for (const auto& [family, cases] : families.items()) {
    const text::Tokenizer tokenizer = tokenizer_of_tests(family);
    for (const nlohmann::ordered_json& each : cases) {
      const EncodedDocument encoded =
          encode(tokenizer, nlohmann::ordered_json{{"messages", each.at("messages")}}.dump());
      EXPECT_EQ(encoded.ids, each.at("ids").get<std::vector<std::int32_t>>()) << each.at("messages");
      std::string mask;
      for (const std::uint8_t trained : encoded.trained) mask += trained != 0 ? '1' : '0';
      EXPECT_EQ(mask, each.at("mask").get<std::string>()) << family << ": " << each.at("messages");
    }
  }
}

TEST_F(Conversations, AreRefusedByTheirLine) {
  const text::Tokenizer tokenizer = tokenizer_of_tests("qwen2");
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages": []  "x"})", "talk.jsonl:1:20: this is not valid JSON"},
      {R"({"messages": "hi"})", "talk.jsonl:1: "},
      {R"({"messages": [7]})", "talk.jsonl:1: "},
      {R"({"messages": [], "text": "x"})", "talk.jsonl:1: expected an object with"},
      {R"({"messages": null, "text": null})", "talk.jsonl:1: expected an object with"}};
  for (const auto& each : cases)
    EXPECT_THAT(refusal([&] { encode(tokenizer, each.first); }), HasSubstr(each.second)) << each.first;
}

TEST_F(Conversations, NeedATemplate) {
  const text::Tokenizer tokenizer = tokenizer_of_tests("qwen2");
  const std::vector<std::string> files = {corpus_.write("talk.jsonl", R"({"messages": []})")};
  TextDocument document;
  DocumentReader(files).next(document);
  EncodedDocument encoded;
  EXPECT_THAT(refusal([&] { DocumentEncoder(tokenizer, 0, nullptr).encode(document, encoded); }),
              HasSubstr("talk.jsonl:1: \"messages\" need the model's chat template"));
}

}  // namespace
}  // namespace strata
