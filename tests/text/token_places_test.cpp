// Where tokens stand in a text, and which of them a stretch of it has: as the package tokenizers says it
// (make_spans.py).
#include "engine/input/text/token_places.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/file.h"
#include "base/json_text.h"
#include "engine/config/choices.h"
#include "tests/support/source_folder.h"

namespace strata::text {
namespace {

std::filesystem::path folder_of_goldens() {
  return test::source_folder() / "tests/text/goldens";
}
Tokenizer tokenizer_of(const std::string& family) {
  return Tokenizer::read(folder_of_goldens() / (family + ".tokenizer.json"));
}

TEST(TokenPlaces, AreWhereTheOriginalHasThem) {
  const nlohmann::json families = read_json_object(folder_of_goldens() / "spans.json");
  for (const auto& [family, cases] : families.items()) {
    const Tokenizer tokenizer = tokenizer_of(family);
    for (const nlohmann::json& each : cases) {
      const std::string text = each.at("text");
      const std::vector<std::int32_t> ids = each.at("ids");
      const auto places = token_places(tokenizer, text, ids);
      ASSERT_TRUE(places) << family << ": " << text;
      for (const nlohmann::json& span : each.at("spans")) {
        EXPECT_EQ(tokens_of(*places, {span[0], span[1]}), (Range{span[2], span[3]}))
            << family << ", bytes " << span[0] << " to " << span[1] << " of " << text;
      }
    }
  }
}

TEST(TokenPlaces, AreUnknownWhereANormalizerChangesTheText) {
  const Tokenizer bert = tokenizer_of("bert");
  std::vector<std::int32_t> ids;
  bert.encode("Capitals", ids, AddSpecial::no);
  EXPECT_FALSE(token_places(bert, "Capitals", ids));
}

/// Tokens of stretches of a text that the normalizer of `family` changes; each stretch as "BEFORE|STRETCH".
std::vector<std::string> spelled_stretches(
    const std::string& family, const std::string& text,
    const std::vector<std::pair<std::string, std::string>>& stretches) {
  const Tokenizer tokenizer = tokenizer_of(family);
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids, AddSpecial::no);
  EXPECT_FALSE(token_places(tokenizer, text, ids)) << text;
  std::vector<Range> ranges;
  for (const auto& [before, stretch] : stretches) {
    EXPECT_TRUE(text.starts_with(before + stretch));
    ranges.push_back({before.size(), before.size() + stretch.size()});
  }
  const auto tokens = tokens_of_stretches(tokenizer, text, ids, ranges);
  if (!tokens) return {"nothing"};
  std::vector<std::string> spelled;
  for (const auto& [begin, end] : *tokens) {
    spelled.emplace_back();
    for (std::size_t i = begin; i < end; ++i) spelled.back() += tokenizer.spelling(ids[i]);
  }
  return spelled;
}

/// Qwen2 composes characters.
TEST(TokenPlaces, AreFoundWhereANormalizerChangesTheText) {
  const std::string begin = "<|im_start|>assistant\n", said = "e\u0301te\u0301<|im_end|>", rest = "\n";
  EXPECT_EQ(spelled_stretches("qwen2", begin + said + rest + begin + said + rest,
                              {{begin, said}, {begin + said + rest + begin, said}}),
            (std::vector<std::string>{"\u00e9t\u00e9<|im_end|>", "\u00e9t\u00e9<|im_end|>"}));
  // In the middle of a character that is composed, which one token or more have whole.
  EXPECT_EQ(spelled_stretches("qwen2", begin + said, {{begin + "e", said.substr(1)}, {begin, "e"}}),
            (std::vector<std::string>{"\u00e9t\u00e9<|im_end|>", "\u00e9"}));
}

/// The newline that ends the prompt and the one that begins the answer are one token.
TEST(TokenPlaces, AreFoundWhereATokenStandsAcrossABorderOfChangedText) {
  const std::string begin = "<|im_start|>assistant\n", said = "\ne\u0301<|im_end|>";
  const auto spelled = spelled_stretches("qwen2", begin + said, {{begin, said}});
  ASSERT_EQ(spelled.size(), 1U);
  EXPECT_TRUE(spelled[0].ends_with("\n\u00e9<|im_end|>")) << spelled[0];
}

TEST(TokenPlaces, AreFoundWhereCapitalsAreWrittenSmall) {
  EXPECT_EQ(spelled_stretches("bert", "Hello World", {{"Hello ", "World"}}).front().find("hello"),
            std::string::npos);
}

/// A million characters, and a thousand stretches: each is looked for in its own section.
TEST(TokenPlaces, AreFoundInTimeLinearInTheStretches) {
  std::string text;
  std::vector<Range> stretches;
  for (int i = 0; i < 1000; ++i) {
    text += "<|im_start|>assistant\n";
    const std::size_t begin = text.size();
    for (int word = 0; word < 20; ++word) text += "caf\u0065\u0301 ";
    text += "<|im_end|>";
    stretches.push_back({begin, text.size()});
  }
  const Tokenizer tokenizer = tokenizer_of("qwen2");
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids, AddSpecial::no);
  const auto begun = std::chrono::steady_clock::now();
  const auto tokens = tokens_of_stretches(tokenizer, text, ids, stretches);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  ASSERT_TRUE(tokens);
  for (const auto& [begin, end] : *tokens) EXPECT_EQ(tokenizer.spelling(ids[end - 1]), "<|im_end|>") << begin;
}

TEST(TokenPlaces, OfNothingAreNone) {
  EXPECT_TRUE(token_places(tokenizer_of("gpt2"), "", {})->empty());
  EXPECT_EQ(tokens_of({}, {0, 0}), (Range{0, 0}));
}

}  // namespace
}  // namespace strata::text
