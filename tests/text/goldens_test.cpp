// Goldens: what the package tokenizers makes of the texts of cases.py with small tokenizers of each family,
// and with single normalizers, pre-tokenizers and decoders (make_goldens.py).
#include "engine/input/text/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "engine/config/choices.h"
#include "engine/input/text/byte_characters.h"
#include "engine/input/text/decoder.h"
#include "engine/input/text/normalizer.h"
#include "engine/input/text/pre_tokenizer.h"
#include "tests/support/source_folder.h"

namespace strata::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

std::filesystem::path golden(const std::string& name) {
  return test::source_folder() / "tests/text/goldens" / name;
}
json read_golden(const std::string& name) {
  return parse_json(read_file(golden(name)), name);
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, AddSpecial add_special) {
  Ids ids;
  tokenizer.encode(text, ids, add_special);
  return ids;
}

class Goldens : public testing::TestWithParam<const char*> {
 protected:
  Tokenizer tokenizer_ = Tokenizer::read(golden(std::string(GetParam()) + ".tokenizer.json"));
  json golden_ = read_golden(std::string(GetParam()) + ".cases.json");
};

// Invariant of data (Goldens.*): Tokens are those of the original. Ids and decoded texts equal those of the
// tokenizers library for thirteen families. The written files do not depend on threads, on the pieces of a
// long text, or on where the work was stopped.
TEST_P(Goldens, TextsHaveTheirIds) {
  // Twice, so that words are known the second time.
  for (int round = 0; round < 2; ++round) {
    for (const json& each : golden_.at("cases")) {
      const auto text = each.at("text").get<std::string>();
      EXPECT_EQ(encode(tokenizer_, text, AddSpecial::no), each.at("ids").get<Ids>()) << each.at("text");
    }
  }
}

TEST_P(Goldens, SpecialTokensStandAround) {
  for (const json& each : golden_.at("cases")) {
    Ids expected = each.value("before", Ids());
    for (const std::int32_t id : each.at("ids").get<Ids>()) expected.push_back(id);
    for (const std::int32_t id : each.value("after", Ids())) expected.push_back(id);
    EXPECT_EQ(encode(tokenizer_, each.at("text").get<std::string>(), AddSpecial::yes), expected)
        << each.at("text");
  }
}

TEST_P(Goldens, IdsHaveTheirText) {
  for (const json& each : golden_.at("cases")) {
    const Ids ids = each.at("ids").get<Ids>();
    EXPECT_EQ(tokenizer_.decode(ids, false), each.at("decoded").get<std::string>()) << each.at("text");
    const Ids all = encode(tokenizer_, each.at("text").get<std::string>(), AddSpecial::yes);
    EXPECT_EQ(tokenizer_.decode(all, true), each.value("skipped", each.at("decoded").get<std::string>()))
        << each.at("text");
  }
}

TEST_P(Goldens, VocabulariesHaveTheirSize) {
  EXPECT_EQ(tokenizer_.vocabulary_size(), golden_.at("vocabulary_size").get<std::size_t>());
  EXPECT_EQ(tokenizer_.end_of_ids(), golden_.at("end").get<std::int32_t>());
}

INSTANTIATE_TEST_SUITE_P(Families, Goldens,
                         testing::Values("gpt2", "roberta", "llama3", "qwen2", "llama2", "mistral", "gemma",
                                         "t5", "xlm_r", "unigram_bytes", "ties", "bert", "clip", "mixed"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Normalizers, GiveTheTextsOfTheOriginal) {
  for (const json& component : read_golden("normalizers.json")) {
    const Normalize normalize = read_normalizer(JsonField(component.at("component"), "golden"));
    for (const json& each : component.at("cases")) {
      NormalizedText normalized{.text = each[0].get<std::string>()};
      normalize(normalized);
      EXPECT_EQ(normalized.text, each[1].get<std::string>()) << component.at("component") << each[0];
    }
  }
}

std::vector<std::string> words_of(const PreTokenizer& pre_tokenizer, const std::string& text) {
  Pieces pieces;
  pieces.add(text, true);
  for (const PreTokenize& step : pre_tokenizer.steps) step(pieces);
  std::vector<std::string> words;
  for (const Piece& piece : pieces.list()) {
    std::string word(pieces.text(piece));
    if (pre_tokenizer.ends_in_byte_characters) {
      word.clear();
      append_byte_characters(pieces.text(piece), word);
    }
    words.push_back(word);
  }
  return words;
}

TEST(PreTokenizers, GiveTheWordsOfTheOriginal) {
  for (const json& component : read_golden("pre_tokenizers.json")) {
    const PreTokenizer pre_tokenizer = read_pre_tokenizer(JsonField(component.at("component"), "golden"));
    for (const json& each : component.at("cases")) {
      EXPECT_EQ(words_of(pre_tokenizer, each[0].get<std::string>()), each[1].get<std::vector<std::string>>())
          << component.at("component") << each[0];
    }
  }
}

TEST(Decoders, GiveTheTextsOfTheOriginal) {
  for (const json& component : read_golden("decoders.json")) {
    const Decode decode = read_decoder(JsonField(component.at("component"), "golden"));
    for (const json& each : component.at("cases")) {
      auto tokens = each[0].get<std::vector<std::string>>();
      decode(tokens);
      std::string text;
      for (const std::string& token : tokens) text += token;
      EXPECT_EQ(text, each[1].get<std::string>()) << component.at("component") << each[0];
    }
  }
}

}  // namespace
}  // namespace strata::text
