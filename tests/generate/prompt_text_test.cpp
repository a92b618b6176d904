// Text as tokens and back, as a user sees it.
#include "engine/run/generate/prompt_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/base/temporary_folder.h"
#include "tests/support/source_folder.h"

namespace strata::test {
namespace {

TEST(PromptTextTest, SaysWholeCharactersAsTokensCome) {
  for (const std::string& tokenizer :
       {std::string("bytes"), (source_folder() / "tests/text/goldens/gpt2.tokenizer.json").string()}) {
    const PromptText text = PromptText::read(tokenizer);
    const std::string whole = "né 𝄞 – ok";
    TextStream stream(text);
    std::string said;
    for (const std::int32_t id : text.encode(whole)) {
      const std::string next = stream.add(id);
      EXPECT_EQ(next.find("\xEF\xBF\xBD"), std::string::npos) << tokenizer;
      said += next;
    }
    EXPECT_EQ(said + stream.end(), whole) << tokenizer;
  }
}

TEST(PromptTextTest, ShowsAtTheEndThatACharacterIsIncomplete) {
  const PromptText text = PromptText::read("bytes");
  TextStream stream(text);
  EXPECT_EQ(stream.add('a'), "a");
  EXPECT_EQ(stream.add(0xF0), "");
  EXPECT_EQ(stream.end(), "\xEF\xBF\xBD");
}

TEST(PromptTextTest, CountsBytesOfText) {
  const PromptText bytes = PromptText::read("bytes");
  EXPECT_EQ(bytes.text_bytes('a'), 1);
  EXPECT_EQ(bytes.text_bytes(0), 0);
  EXPECT_EQ(bytes.text_bytes(300), 0) << "a larger vocabulary";
  EXPECT_EQ(bytes.decode(std::vector<std::int32_t>{'a', 300, 'b'}), "ab");
  const PromptText text =
      PromptText::read((source_folder() / "tests/text/goldens/gpt2.tokenizer.json").string());
  const std::string whole = "né 𝄞 – ok";
  std::int64_t sum = 0;
  for (const std::int32_t id : text.encode(whole)) sum += text.text_bytes(id);
  EXPECT_EQ(sum, std::ssize(whole));
}

class StopTokens : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
  }
  std::set<std::int32_t> found() const { return stop_tokens(folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(StopTokens, AreThoseOfTheGenerationOrElseOfTheModel) {
  EXPECT_EQ(found(), std::set<std::int32_t>());
  write("config.json", R"({"eos_token_id": 5})");
  EXPECT_EQ(found(), std::set<std::int32_t>{5});
  write("generation_config.json", R"({"eos_token_id": [7, 2]})");
  EXPECT_EQ(found(), (std::set<std::int32_t>{2, 7}));
  write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_EQ(found(), std::set<std::int32_t>{5});
}

TEST_F(StopTokens, AreRefusedIfTheyAreNone) {
  for (const char* bad : {R"({"eos_token_id": "a"})", R"({"eos_token_id": [1, -2]})"}) {
    write("generation_config.json", bad);
    try {
      found();
      FAIL() << bad;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(),
                  ::testing::AllOf(::testing::HasSubstr("generation_config.json: eos_token_id is"),
                                   ::testing::HasSubstr("expected a token's id")));
    }
  }
}

}  // namespace
}  // namespace strata::test
