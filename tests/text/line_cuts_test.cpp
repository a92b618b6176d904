#include "engine/input/text/line_cuts.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "base/file.h"
#include "base/json_text.h"
#include "engine/config/choices.h"
#include "engine/input/text/tokenizer.h"
#include "tests/support/source_folder.h"

namespace strata::text {
namespace {

nlohmann::json tokenizer_file(const std::string& family) {
  return read_json_object(test::source_folder() / "tests/text/goldens" / (family + ".tokenizer.json"),
                          {.bytes = 200'000'000, .values = 8'000'000});
}

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids, AddSpecial::no);
  return ids;
}

// Invariant (LineCuts.*): Tokens are those of the original.
TEST(LineCuts, AreKnownOfFamiliesThatAlwaysSplitThere) {
  std::set<std::string> known;
  for (const char* family : {"gpt2", "roberta", "llama3", "qwen2", "llama2", "mistral", "gemma", "t5",
                             "xlm_r", "unigram_bytes", "ties", "bert", "clip", "mixed"})
    if (has_line_cuts(tokenizer_file(family))) known.insert(family);
  EXPECT_EQ(known, (std::set<std::string>{"gpt2", "llama3", "qwen2", "ties"}));
}

TEST(LineCuts, AreNotKnownWhereSomethingReachesOverALinesEnd) {
  const nlohmann::json good = tokenizer_file("qwen2");
  ASSERT_TRUE(has_line_cuts(good));
  const auto with = [&](const char* place, const nlohmann::json& value) {
    nlohmann::json changed = good;
    changed[nlohmann::json::json_pointer(place)] = value;
    return has_line_cuts(changed);
  };
  EXPECT_FALSE(with("/added_tokens/0/lstrip", true));
  EXPECT_TRUE(with("/added_tokens/0/rstrip", true));
  EXPECT_FALSE(with("/added_tokens/0/content", "a\nb"));
  EXPECT_FALSE(with("/normalizer/type", "NFKC"));
  EXPECT_FALSE(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\s?\\p{L}+"));
  EXPECT_FALSE(with("/pre_tokenizer/pretokenizers/0/behavior", "Removed"));
  EXPECT_FALSE(with("/pre_tokenizer/pretokenizers/1/type", "Metaspace"));
  EXPECT_FALSE(with("/pre_tokenizer", nullptr));
}

TEST(LineCuts, AreFoundBehindLinesOfWords) {
  EXPECT_EQ(find_line_cut("ab\ncd\n", 0), 3U);
  EXPECT_EQ(find_line_cut("ab\ncd\nef", 1), 3U);
  EXPECT_EQ(find_line_cut("ab\ncd\nef", 3), 6U);
  EXPECT_EQ(find_line_cut("ü\né", 0), 3U);
  for (const char* none : {"", "abc", "ab\n", "ab\n\ncd", "ab\n cd", "ab \ncd", "ab\r\ncd", "ab\n/cd",
                           "ab\n\xff", "ab\n\xc3", "\xff\nab", "\nab", "ab\n\xe2\x80\x83x"})
    EXPECT_EQ(find_line_cut(none, 0), std::string_view(none).size()) << none;
}

/// Random texts of what tokenizers treat each in a way of its own.
TEST(LineCuts, LeaveTheIdsAsTheyAre) {
  const std::vector<std::string> parts = {"\n",
                                          "\n",
                                          "\n",
                                          " ",
                                          "  ",
                                          "\t",
                                          "\r\n",
                                          "a",
                                          "word",
                                          "The",
                                          "'s",
                                          "'S",
                                          "7",
                                          "1234",
                                          ".",
                                          "...",
                                          "/",
                                          "_",
                                          "-\n",
                                          "é",
                                          "e\u0301",
                                          "\u0301",
                                          "ﬁ",
                                          "Ω",
                                          "字",
                                          "カ゛",
                                          "🙂",
                                          "\u200d",
                                          "\u00a0",
                                          "\u2028",
                                          "\u0085",
                                          "٣",
                                          "½",
                                          "<|endoftext|>",
                                          "<|im_start|>",
                                          "<|im_end|>",
                                          "\xff",
                                          "\xe2\x82"};
  std::mt19937 random(5);
  int cuts = 0;
  for (const char* family : {"gpt2", "llama3", "qwen2", "ties"}) {
    const std::string name = std::string(family) + ".tokenizer.json";
    const Tokenizer tokenizer = Tokenizer::parse(tokenizer_file(family).dump(), name);
    ASSERT_TRUE(tokenizer.has_line_cuts());
    for (int trial = 0; trial < 1500; ++trial) {
      std::string text;
      for (int i = 0; i < 30; ++i)
        text += parts[std::uniform_int_distribution<std::size_t>(0, parts.size() - 1)(random)];
      const std::size_t cut = find_line_cut(text, trial % 20);
      if (cut == text.size()) continue;
      ++cuts;
      std::vector<std::int32_t> joined = ids_of(tokenizer, std::string_view(text).substr(0, cut));
      const std::vector<std::int32_t> behind = ids_of(tokenizer, std::string_view(text).substr(cut));
      joined.insert(joined.end(), behind.begin(), behind.end());
      ASSERT_EQ(joined, ids_of(tokenizer, text))
          << family << ": "
          << nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) << " cut at "
          << cut;
    }
  }
  EXPECT_GT(cuts, 1000);
}

}  // namespace
}  // namespace strata::text
