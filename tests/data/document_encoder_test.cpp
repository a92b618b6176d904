// Documents as ids and marks: conversations have those that transformers makes of them
// (make_conversations.py).
#include "engine/input/data/document_encoder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/file.h"
#include "base/json_text.h"
#include "engine/config/choices.h"
#include "engine/input/chat/chat_template.h"
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
    DocumentEncoder(tokenizer, {.end = 0}, &chat_).encode(document, encoded);
    return encoded;
  }

  Corpus corpus_;
  chat::ChatTemplate chat_ = chat::ChatTemplate::parse(
      read_file(tests_folder() / "chat/templates/chatml_generation.jinja"), "chatml_generation.jinja");
};

/// STRATA_TEST_CONVERSATIONS names a file of more, which make_conversations.py makes.
// Invariant (Conversations.*): Untrained tokens have no loss.
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
  EXPECT_THAT(refusal([&] { DocumentEncoder(tokenizer, {.end = 0}, nullptr).encode(document, encoded); }),
              HasSubstr("talk.jsonl:1: \"messages\" need the model's chat template"));
}

class Texts : public ::testing::Test {
 protected:
  EncodedDocument encode(const text::Tokenizer& tokenizer, const TextBorders& borders,
                         const nlohmann::json& object) const {
    const std::vector<std::string> files = {corpus_.write("text.jsonl", object.dump())};
    TextDocument document;
    DocumentReader(files).next(document);
    EncodedDocument encoded;
    DocumentEncoder(tokenizer, borders, nullptr).encode(document, encoded);
    return encoded;
  }

  Corpus corpus_;
};

/// Many tokenizers put a blank before a text, which a completion has not.
TEST_F(Texts, OfPromptAndCompletionAreOne) {
  std::mt19937 random(54);
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const std::vector<std::string> words = {"x",     "={",   "\"a\"}", " ",          "  ",     "\n",
                                          "Grüße", "你好", "🙂",   "cafe\u0301", "\u0301", "the"};
  const auto some_text = [&] {
    std::string text;
    for (std::size_t count = 1 + below(4); count > 0; --count) text += words[below(words.size())];
    return text;
  };
  for (const char* family : {"gpt2", "qwen2", "llama2", "mistral", "gemma", "t5"}) {
    const text::Tokenizer tokenizer = tokenizer_of_tests(family);
    for (int i = 0; i < 200; ++i) {
      const std::string prompt = some_text(), completion = some_text();
      const EncodedDocument encoded =
          encode(tokenizer, {.begin = {1, 2}, .end = 0}, {{"prompt", prompt}, {"completion", completion}});
      std::vector<std::int32_t> expected, before;
      tokenizer.encode(prompt + completion, expected, text::AddSpecial::no);
      tokenizer.encode(prompt, before, text::AddSpecial::no);
      expected.insert(expected.begin(), {1, 2});
      expected.push_back(0);
      ASSERT_EQ(encoded.ids, expected) << family << ": " << prompt << "|" << completion;
      EXPECT_TRUE(std::ranges::is_sorted(encoded.trained)) << family << ": " << prompt << "|" << completion;
      // A token across the border is the completion's.
      const std::span ids = std::span(encoded.ids).subspan(2);
      const bool is_clean =
          before.size() <= ids.size() && std::ranges::equal(before, ids.first(before.size()));
      const auto untrained = std::ranges::count(encoded.trained, 0) - 2;
      if (is_clean && !completion.starts_with(' ') && !completion.starts_with("\u0301")) {
        EXPECT_EQ(untrained, std::ssize(before)) << family << ": " << prompt << "|" << completion;
      }
    }
  }
}

TEST_F(Texts, BeginAndEndAsTheirBordersSay) {
  const text::Tokenizer tokenizer = tokenizer_of_tests("gpt2");
  const EncodedDocument text = encode(tokenizer, {.begin = {7}, .end = 9}, {{"text", "a"}});
  EXPECT_EQ(text.ids.front(), 7);
  EXPECT_EQ(text.ids.back(), 9);
  EXPECT_EQ(text.trained, std::vector<std::uint8_t>(3, 1));
  EXPECT_TRUE(encode(tokenizer, {.begin = {7}, .end = 9}, {{"text", ""}}).ids.empty());
  EXPECT_THAT(refusal([&] {
                encode(tokenizer, {.missing_end = "there is no end"}, {{"text", "a"}});
              }),
              HasSubstr("text.jsonl:1: there is no end"));
}

TEST_F(Texts, InPartsBeginAndEndOnce) {
  const text::Tokenizer tokenizer = tokenizer_of_tests("gpt2");
  std::string lines;
  for (int i = 0; i < 50; ++i) lines += "line of words\n";
  const std::vector<std::string> files = {corpus_.write("a.txt", lines)};
  DocumentReader reader(files, {}, 100);
  const DocumentEncoder encoder(tokenizer, {.begin = {7}, .end = 9}, nullptr);
  std::vector<std::int32_t> ids;
  int parts = 0;
  for (TextDocument part; reader.next(part); ++parts) {
    EncodedDocument encoded;
    encoder.encode(part, encoded);
    ids.insert(ids.end(), encoded.ids.begin(), encoded.ids.end());
  }
  std::vector<std::int32_t> expected;
  tokenizer.encode(lines, expected, text::AddSpecial::no);
  expected.insert(expected.begin(), 7);
  expected.push_back(9);
  EXPECT_GT(parts, 2);
  EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace strata
