// What a damaged or unsupported tokenizer.json is told: one sentence with its place.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/config/choices.h"
#include "engine/input/text/tokenizer.h"
#include "tests/support/damaged_json.h"

namespace strata::text {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json good() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 3, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\s"}, "behavior": "Isolated", "invert": false},
        {"type": "Metaspace", "replacement": "_", "prepend_scheme": "never"}]},
    "post_processor": {"type": "TemplateProcessing", "pair": [], "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}]},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
}

json unigram() {
  return json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.5]]})");
}

/// The good file with another value at one place, and what it is told; "" if it is read.
std::string told(const std::string& pointer, const json& value) {
  json file = good();
  file[json::json_pointer(pointer)] = value;
  try {
    Tokenizer::parse(file.dump(), "t.json");
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

std::string told_of(const json& file) {
  return told("", file);
}

TEST(TokenizerFile, ThatIsGoodIsRead) {
  EXPECT_EQ(told("/version", "1.0"), "");
  EXPECT_EQ(told("/model", unigram()), "");
  EXPECT_EQ(told("/model/merges", json::array({json::array({"a", "b"})})), "");
}

TEST(TokenizerFile, ThatIsNoJsonIsRefused) {
  EXPECT_THROW(Tokenizer::parse("{", "t.json"), ConfigError);
  EXPECT_THAT(told_of(json::array()), HasSubstr("t.json: a map is expected here"));
}

TEST(TokenizerFile, HasNothingThatIsNotKnown) {
  const std::string unknown = ": this setting is not known, so what it asks for cannot be done";
  EXPECT_EQ(told("/surprise", 1), "t.json: surprise" + unknown);
  EXPECT_EQ(told("/version", "2.0"), "t.json: version: only version '1.0' is known");
  EXPECT_EQ(told("/normalizer/normalizers/1/more", 1), "t.json: normalizer.normalizers[1].more" + unknown);
  EXPECT_EQ(told("/pre_tokenizer/pretokenizers/0/more", 1),
            "t.json: pre_tokenizer.pretokenizers[0].more" + unknown);
  EXPECT_EQ(told("/pre_tokenizer/pretokenizers/1/more", 1),
            "t.json: pre_tokenizer.pretokenizers[1].more" + unknown);
  EXPECT_EQ(told("/post_processor/more", 1), "t.json: post_processor.more" + unknown);
  EXPECT_EQ(told("/decoder/decoders/0/more", 1), "t.json: decoder.decoders[0].more" + unknown);
  EXPECT_EQ(told("/model/more", 1), "t.json: model.more" + unknown);
  EXPECT_EQ(told("/added_tokens/0/more", 1), "t.json: added_tokens[0].more" + unknown);
}

TEST(TokenizerFile, NamesTheComponentThatIsNotSupported) {
  EXPECT_EQ(told("/normalizer/normalizers/1/type", "X"),
            "t.json: normalizer.normalizers[1]: normalizer 'X' is not supported");
  EXPECT_EQ(told("/pre_tokenizer/pretokenizers/1/type", "UnicodeScripts"),
            "t.json: pre_tokenizer.pretokenizers[1]: pre-tokenizer 'UnicodeScripts' is not supported");
  EXPECT_EQ(told("/post_processor/type", "X"), "t.json: post_processor: post-processor 'X' is not supported");
  EXPECT_EQ(told("/decoder/decoders/0/type", "X"),
            "t.json: decoder.decoders[0]: decoder 'X' is not supported");
  EXPECT_EQ(told("/model/type", "WordLevel"),
            "t.json: model: model 'WordLevel' is not supported; BPE, Unigram and WordPiece are");
}

TEST(TokenizerFile, NamesWhatIsMissingOrOfTheWrongType) {
  EXPECT_EQ(told("/normalizer", json::object()), "t.json: normalizer: 'type' is missing");
  EXPECT_EQ(told("/normalizer", 3), "t.json: normalizer: a map is expected here");
  EXPECT_EQ(told("/normalizer/normalizers", 3), "t.json: normalizer.normalizers: a list is expected here");
  EXPECT_EQ(told("/pre_tokenizer/pretokenizers/0/invert", "no"),
            "t.json: pre_tokenizer.pretokenizers[0].invert: true or false is expected here");
  EXPECT_EQ(told("/pre_tokenizer/pretokenizers/1/replacement", "__"),
            "t.json: pre_tokenizer.pretokenizers[1].replacement: one character is expected here");
  EXPECT_EQ(told("/added_tokens/0/content", 1), "t.json: added_tokens[0].content: a text is expected here");
  EXPECT_EQ(told("/added_tokens/0/id", -1),
            "t.json: added_tokens[0].id: a whole number from 0 to 2147483646 is expected here");
  json file = good();
  file.erase("model");
  EXPECT_EQ(told_of(file), "t.json: 'model' is missing");
}

TEST(TokenizerFile, HasPatternsThatAreOnes) {
  EXPECT_THAT(
      told("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(a"),
      HasSubstr("t.json: pre_tokenizer.pretokenizers[0].pattern.Regex: this is no regular expression of "
                "Oniguruma's: "));
  EXPECT_THAT(
      told("/pre_tokenizer/pretokenizers/0/behavior", "Merged"),
      HasSubstr("t.json: pre_tokenizer.pretokenizers[0].behavior: behavior 'Merged' is not supported"));
  EXPECT_THAT(told("/pre_tokenizer/pretokenizers/1/prepend_scheme", "often"),
              HasSubstr("t.json: pre_tokenizer.pretokenizers[1].prepend_scheme: 'often' is not supported"));
  EXPECT_EQ(told("/pre_tokenizer/pretokenizers/1", {{"type", "Metaspace"},
                                                    {"replacement", "_"},
                                                    {"prepend_scheme", "first"},
                                                    {"add_prefix_space", false}}),
            "t.json: pre_tokenizer.pretokenizers[1].add_prefix_space: false contradicts prepend_scheme, "
            "which is not "
            "'never'");
}

TEST(TokenizerFile, HasMergesWithinItsVocabulary) {
  EXPECT_EQ(told("/model/merges", {"a b", "a c"}),
            "t.json: model.merges[1]: token 'c' is not in the vocabulary");
  EXPECT_EQ(told("/model/merges", {"b a"}), "t.json: model.merges[0]: token 'ba' is not in the vocabulary");
  EXPECT_EQ(told("/model/merges", {"a b c"}),
            "t.json: model.merges[0]: a merge is two tokens with a space between them");
  EXPECT_EQ(told("/model/merges", {"ab"}),
            "t.json: model.merges[0]: a merge is two tokens with a space between them");
  EXPECT_EQ(told("/model/merges", {3}), "t.json: model.merges[0]: a merge is 'a b' or ['a', 'b']");
  EXPECT_EQ(told("/model/merges", "a b"), "t.json: model.merges: a list of merges is expected here");
  EXPECT_EQ(told("/model/dropout", 0.1),
            "t.json: model.dropout: merges that are left out by chance are not supported: write null here");
  EXPECT_EQ(told("/model/dropout", 0.0), "");
}

TEST(TokenizerFile, HasAVocabularyOfDifferentIds) {
  EXPECT_EQ(told("/model/vocab/b", 0), "t.json: model.vocab['b']: 'a' has the id 0, too");
  EXPECT_EQ(told("/model/vocab/b", 1.5),
            "t.json: model.vocab['b']: a whole number from 0 to 1000012 is expected here");
  EXPECT_EQ(told("/model/vocab/b", 4'000'000'000),
            "t.json: model.vocab['b']: a whole number from 0 to 1000012 is expected here");
  EXPECT_EQ(told("/model/vocab", json::array()),
            "t.json: model.vocab: a map from tokens to ids is expected here");
}

TEST(TokenizerFile, HasUnigramsWithScores) {
  json model = unigram();
  model["vocab"][1] = json::array({"a"});
  EXPECT_EQ(told("/model", model), "t.json: model.vocab[1]: a token is ['text', score]");
  model = unigram();
  model["unk_id"] = 2;
  EXPECT_EQ(told("/model", model), "t.json: model.unk_id: the vocabulary has no such id");
}

TEST(TokenizerFile, HasTemplatesOfSingleTextsWithTokensThatItLists) {
  EXPECT_EQ(told("/post_processor/single/0/SpecialToken/id", "<x>"),
            "t.json: post_processor.special_tokens: '<x>' is missing");
  EXPECT_EQ(told("/post_processor/single/1/Sequence/id", "B"),
            "t.json: post_processor.single[1]: a single text has the sequence 'A' only");
  const json bert = {{"type", "BertProcessing"}, {"sep", {"[SEP]", 1}}, {"cls", {"[CLS]", 2}}};
  EXPECT_EQ(
      told("/post_processor", {{"type", "Sequence"}, {"processors", {bert, bert}}}),
      "t.json: post_processor.processors[1]: a second post-processor that adds tokens is not supported");
}

TEST(TokenizerFile, HasAddedTokensOfDifferentForms) {
  json file = good();
  json token = file["added_tokens"][0];
  token["normalized"] = true;
  token["content"] = "Ab";
  file["added_tokens"].push_back(token);
  token["content"] = "aB";
  file["added_tokens"].push_back(token);
  EXPECT_EQ(told_of(file), "t.json: added_tokens: token 'aB' is normalized to 'ab', as another one is");
  file = good();
  file["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  token["content"] = " ";
  file["added_tokens"].push_back(token);
  EXPECT_EQ(told_of(file), "t.json: added_tokens[1]: nothing is left of this token when it is normalized");
}

TEST(TokenizerFile, HasWholeNormalizationRules) {
  const auto rules = [](const std::string& base64) {
    return told("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", base64}});
  };
  const std::string place = "t.json: normalizer.precompiled_charsmap: ";
  EXPECT_EQ(rules("!!!!"), place + "this is not base64");
  EXPECT_EQ(rules(""), place + "these rules end before they begin");
  EXPECT_EQ(rules("AAAAAA=="), place + "the size of the rules' trie is wrong");
  EXPECT_EQ(rules("CAAAAAAAAAA="),
            place + "the size of the rules' trie is wrong");  // 8 bytes are said, 4 are there
  EXPECT_EQ(rules("BAAAAAAAAAD/"), place + "what replaces is not UTF-8");
  EXPECT_EQ(rules("BAAAAAAAAAA="), "");
}

TEST(UnknownText, IsRefusedIfTheFileHasNoTokenForIt) {
  const auto refused = [](const json& model) {
    json file = good();
    file["model"] = model;
    const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "t.json");
    std::vector<std::int32_t> ids;
    tokenizer.encode("a", ids, AddSpecial::no);
    try {
      tokenizer.encode("é", ids, AddSpecial::no);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(
      refused({{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}, {"unk_token", "<unk>"}}),
      "the tokenizer's model.unk_token '<unk>' is not in its vocabulary, and a text has a character that is "
      "not, "
      "either");
  EXPECT_EQ(refused({{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}}), "");  // is left out
  json model = unigram();
  model["unk_id"] = nullptr;
  EXPECT_EQ(refused(model),
            "the tokenizer's model.unk_id is null, and a text has a character that no token has");
  EXPECT_THAT(refused({{"type", "WordPiece"},
                       {"vocab", {{"a", 0}}},
                       {"unk_token", "[UNK]"},
                       {"continuing_subword_prefix", "##"},
                       {"max_input_chars_per_word", 10}}),
              HasSubstr("the tokenizer's model.unk_token '[UNK]' is not in its vocabulary"));
}

/// Anything but a ConfigError ends the test.
TEST(TokenizerFile, ThatIsDamagedInManyWaysIsReadOrRefusedInASentence) {
  std::mt19937 random(5);
  json with_bytes = good();
  with_bytes["normalizer"] = nullptr;
  with_bytes["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  with_bytes["pre_tokenizer"]["use_regex"] = nullptr;  // which stands for true
  EXPECT_EQ(told_of(with_bytes), "");
  json with_scores = with_bytes;
  with_scores["model"] = unigram();
  for (const json& file : {good(), with_bytes, with_scores}) {
    for (int i = 0; i < 400; ++i) {
      const std::string text = test::damaged(file, random).dump();
      std::vector<std::int32_t> ids;
      try {
        const Tokenizer tokenizer = Tokenizer::parse(text, "t.json");
        tokenizer.encode("ab <s>\n a", ids, AddSpecial::yes);
        tokenizer.decode(ids, true);
      } catch (const ConfigError& error) {
        EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("json.exception"))) << text;
      }
    }
  }
}

}  // namespace
}  // namespace strata::text
