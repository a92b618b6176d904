// Tokenizers and texts that would take for ever, or all memory: in linear time, or ended in a sentence.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/config/choices.h"
#include "engine/input/text/tokenizer.h"
#include "engine/input/text/unicode.h"

namespace strata::text {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string repeated(const std::string& text, int count) {
  std::string many;
  for (int i = 0; i < count; ++i) many += text;
  return many;
}

json added_token(const std::string& content, int id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", false}};
}

json plain() {
  return {{"version", "1.0"},
          {"added_tokens", json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"_", 2}}},
            {"merges", json::array()},
            {"unk_token", "_"}}}};
}

/// What is told of encoding the text; empty if it is encoded.
std::string told_of_text(const json& file, const std::string& text) {
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "t.json");
  std::vector<std::int32_t> ids;
  try {
    tokenizer.encode(text, ids, AddSpecial::no);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(HostileText, OfMarksIsNormalizedInLinearTime) {
  const std::string below = "\xcc\x96", above = "\xcc\x81";
  for (const NormalForm form : {NormalForm::nfc, NormalForm::nfd, NormalForm::nfkc, NormalForm::nfkd}) {
    std::string text = "x" + repeated(above + below, 200'000) + "y";
    normalize_text(text, form);
    EXPECT_EQ(text, "x" + repeated(below, 200'000) + repeated(above, 200'000) + "y");
  }
  // Marks are sorted within their run alone, and the letter takes the first that fits it.
  std::string text = "e" + repeated(above + below, 150) + "a" + above + below;
  normalize_text(text, NormalForm::nfc);
  EXPECT_EQ(text, "\xc3\xa9" + repeated(below, 150) + repeated(above, 149) + "\xc3\xa1" + below);
}

TEST(HostileTokenizer, EndsSearchesForLongTokens) {
  const std::string text = repeated("a", 100'000);
  json file = plain();
  file["added_tokens"] = {added_token(repeated("a", 50'000) + "b", 3)};
  EXPECT_THAT(told_of_text(file, text),
              HasSubstr("the tokenizer takes more than 20200000 steps for a text of 100000"));
  EXPECT_EQ(told_of_text(file, repeated("a", 300)), "");

  file = plain();
  file["model"] = {
      {"type", "Unigram"},
      {"unk_id", 0},
      {"vocab", json::array({json::array({"a", 0.0}), json::array({repeated("a", 50'000) + "b", -1.0})})}};
  EXPECT_THAT(told_of_text(file, text), HasSubstr("the tokenizer takes more than"));

  file["model"] = {{"type", "WordPiece"},
                   {"vocab", {{"a", 0}, {"##b", 1}, {"_", 2}}},
                   {"unk_token", "_"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 1'000'000}};
  EXPECT_THAT(told_of_text(file, text), HasSubstr("the tokenizer takes more than"));
}

TEST(HostileTokenizer, TakesWhitespaceInLinearTime) {
  json file = plain();
  for (const char* strip : {"lstrip", "rstrip"}) {
    file["added_tokens"] = {added_token(" ", 3), added_token("\t", 4)};
    file["added_tokens"][0][strip] = file["added_tokens"][1][strip] = true;
    EXPECT_EQ(told_of_text(file, repeated(" \t", 300'000)), "");
  }
}

/// What a Split with this expression is told of a text.
std::string told_of_pattern(const std::string& pattern, const std::string& text) {
  json file = plain();
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return told_of_text(file, text);
}

/// From each of a text's places the first step back over all of it, the next look over all of it, and the
/// last compare all of it with letters, which Oniguruma counts as nothing.
TEST(HostileTokenizer, EndsRegularExpressionsAfterAsManyStepsOnEachMachine) {
  const std::string text = repeated("a", 50'000) + "cb";
  for (const char* pattern : {"a*a*b", "(?=a*)a", "(?=[^b]*+)a", "(?>[ab]*)[^c]b", "a*b", "(?>(?:aa|a)*)b",
                              "a++b|c", "(?:(?i:A)*+)b", "(a*)\\1b"}) {
    EXPECT_EQ(
        told_of_pattern(pattern, text),
        "a regular expression of the tokenizer takes more than 30000400 steps for a text of 50002 bytes: cut "
        "the text, or take another tokenizer")
        << pattern;
  }
}

/// Far from what ends them: patterns of known tokenizers over texts that are hard for them.
TEST(HostileTokenizer, TakesRegularExpressionsOfTokenizers) {
  const char* const gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  const char* const llama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
      R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string blanks = repeated(" ", 200'000),
                    words = repeated("it's a blank  \r\n\r\n 12345\t", 10'000);
  for (const char* pattern : {gpt2, llama3, " {2,}", " +", "\n{3,}", "(?:-|=)+"}) {
    for (const std::string& text : {blanks, words, repeated("a", 200'000), repeated("1", 200'000),
                                    words + blanks + words, repeated("- ", 100'000) + repeated("-", 100'000)})
      EXPECT_EQ(told_of_pattern(pattern, text), "") << pattern;
  }
}

TEST(HostileTokenizer, MakesNoHugeTexts) {
  const json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const json long_one = {
      {"type", "Replace"}, {"pattern", {{"Regex", "."}}}, {"content", repeated("a", 10'000'000)}};
  const json prepend = {{"type", "Prepend"}, {"prepend", repeated("b", 100'000)}};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const std::string sentence = "the tokenizer's normalizer or pre-tokenizer makes more than";
  json file = plain();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<json>(60, twice)}};
  EXPECT_THAT(told_of_text(file, "a"), HasSubstr(sentence));
  file["normalizer"] = long_one;
  EXPECT_THAT(told_of_text(file, repeated("a", 100'000)), HasSubstr(sentence));
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<json>(100, prepend)}};
  EXPECT_THAT(told_of_text(file, "a"), HasSubstr(sentence));
  // Each part between added tokens by itself is small.
  file["normalizer"] = prepend;
  file["added_tokens"] = {added_token("_", 2)};
  EXPECT_THAT(told_of_text(file, repeated("a_", 10'000)), HasSubstr(sentence));

  file = plain();
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::vector<json>(60, bytes)}};
  EXPECT_THAT(told_of_text(file, "\xc3\xa9"), HasSubstr(sentence));

  file = plain();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<json>(60, twice)}};
  file["added_tokens"] = {added_token("a", 3)};
  file["added_tokens"][0]["normalized"] = true;
  EXPECT_THROW(Tokenizer::parse(file.dump(), "t.json"), ConfigError);
}

}  // namespace
}  // namespace strata::text
