// What holds of every tokenizer, whatever the original says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "engine/config/choices.h"
#include "engine/input/text/byte_trie.h"
#include "engine/input/text/pair_table.h"
#include "engine/input/text/tokenizer.h"
#include "engine/input/text/utf8.h"
#include "engine/input/text/word_cache.h"
#include "tests/support/source_folder.h"

namespace strata::text {
namespace {

using Ids = std::vector<std::int32_t>;

Tokenizer read(const std::string& family) {
  return Tokenizer::read(test::source_folder() / "tests/text/goldens" / (family + ".tokenizer.json"));
}

/// A text of characters of all lengths. A few characters come often.
std::string random_text(std::mt19937& random, int characters) {
  constexpr std::u32string_view kOften = U" aeiotns.▁\n";
  std::string text;
  for (int i = 0; i < characters; ++i) {
    const std::uint32_t kind = random() % 20;
    const char32_t c = kind < 14   ? kOften[random() % kOften.size()]
                       : kind < 16 ? U'a' + random() % 26
                       : kind < 18 ? 0xa0 + random() % 0x600
                       : kind < 19 ? 0x4e00 + random() % 0x100
                                   : 0x1f300 + random() % 0x300;
    append_character(text, c);
  }
  return text;
}

class Tokenizers : public testing::TestWithParam<const char*> {};

// Invariant (Tokenizers.*): Tokens are those of the original.
TEST_P(Tokenizers, GiveTheSameIdsFromManyThreads) {
  const Tokenizer tokenizer = read(GetParam());
  std::mt19937 random(1);
  std::vector<std::string> texts(200);
  for (std::string& text : texts) text = random_text(random, 40);
  const auto encode_all = [&] {
    std::vector<Ids> ids(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) tokenizer.encode(texts[i], ids[i], AddSpecial::yes);
    return ids;
  };
  std::vector<std::vector<Ids>> of_threads(4);
  {
    std::vector<std::jthread> threads;
    threads.reserve(of_threads.size());
    for (std::vector<Ids>& ids : of_threads) threads.emplace_back([&] { ids = encode_all(); });
  }
  for (const std::vector<Ids>& ids : of_threads) EXPECT_EQ(ids, encode_all());
}

// What a tokenizer has seen before changes nothing: a new one has seen nothing.
TEST_P(Tokenizers, GiveKnownWordsTheIdsOfNewOnes) {
  const Tokenizer seasoned = read(GetParam());
  std::mt19937 random(2);
  Ids ids, fresh_ids;
  for (int i = 0; i < 300; ++i) seasoned.encode(random_text(random, 100), ids, AddSpecial::no);
  for (int i = 0; i < 20; ++i) {
    const std::string text = random_text(random, 60);
    ids.clear();
    fresh_ids.clear();
    seasoned.encode(text, ids, AddSpecial::no);
    read(GetParam()).encode(text, fresh_ids, AddSpecial::no);
    EXPECT_EQ(ids, fresh_ids) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Tokenizers,
                         testing::Values("gpt2", "llama3", "llama2", "mistral", "gemma", "t5", "xlm_r",
                                         "unigram_bytes", "bert", "clip"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ByteLevelText, IsDecodedToItself) {
  const Tokenizer tokenizer = read("gpt2");
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_text(random, 80);
    Ids ids;
    tokenizer.encode(text, ids, AddSpecial::no);
    EXPECT_EQ(tokenizer.decode(ids, false), text);
  }
}

TEST(Encode, AppendsToTheIdsThatAreThere) {
  const Tokenizer tokenizer = read("gpt2");
  Ids once, twice{7};
  tokenizer.encode("some text", once, AddSpecial::no);
  tokenizer.encode("some text", twice, AddSpecial::no);
  once.insert(once.begin(), 7);
  EXPECT_EQ(once, twice);
}

TEST(Encode, TakesWhatIsNoUtf8ForTheReplacementCharacter) {
  const Tokenizer tokenizer = read("gpt2");
  Ids broken, replaced;
  tokenizer.encode("a\xffz\xe4\xb8", broken, AddSpecial::no);
  tokenizer.encode("a\xef\xbf\xbdz\xef\xbf\xbd", replaced, AddSpecial::no);
  EXPECT_EQ(broken, replaced);
}

TEST(Decode, LeavesOutIdsWithoutAToken) {
  const Tokenizer tokenizer = read("gpt2");
  Ids ids;
  tokenizer.encode("some text", ids, AddSpecial::no);
  ids.insert(ids.begin() + 1, {-1, tokenizer.end_of_ids(), 2'000'000'000});
  EXPECT_EQ(tokenizer.decode(ids, false), "some text");
}

TEST(Tokens, HaveIdsByTheirText) {
  const Tokenizer tokenizer = read("roberta");
  EXPECT_EQ(tokenizer.id_of("<s>"), 0);
  EXPECT_EQ(tokenizer.id_of("<mask>"), tokenizer.end_of_ids() - 1);
  EXPECT_EQ(tokenizer.id_of("no such token"), std::nullopt);
  const auto& added = tokenizer.added_tokens();
  ASSERT_EQ(added.size(), 5U);
  EXPECT_EQ(
      added.back(),
      (AddedToken{.text = "<mask>", .id = *tokenizer.id_of("<mask>"), .lstrip = true, .special = true}));
}

TEST(PairTable, FindsWhatWasInserted) {
  PairTable table(1000);
  for (std::int32_t i = 0; i < 1000; ++i)
    table.insert(i * 7 % 100, i, {static_cast<std::uint32_t>(i), i + 1});
  for (std::int32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(table.find(i * 7 % 100, i).id, i + 1);
    EXPECT_EQ(table.find(i * 7 % 100, i + 1000).rank, Merge::kNone);
  }
  table.insert(0, 0, {5, 6});
  EXPECT_EQ(table.find(0, 0).id, 6);  // the last counts
  EXPECT_EQ(PairTable().find(1, 2).rank, Merge::kNone);
}

TEST(ByteTrie, FindsTheKeysThatATextBeginsWith) {
  std::mt19937 random(4);
  const auto word = [&] {
    std::string text(1 + random() % 5, 'a');
    for (char& c : text) c = static_cast<char>("ab\xff"[random() % 3]);
    return text;
  };
  std::vector<std::string> keys(60);
  for (std::string& key : keys) key = word();
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  for (std::size_t i = 0; i < keys.size(); ++i) entries.emplace_back(keys[i], static_cast<std::int32_t>(i));
  const ByteTrie trie(entries);
  for (int i = 0; i < 300; ++i) {
    const std::string text = word() + word();
    std::vector<std::pair<std::size_t, std::int32_t>> expected, found;
    for (std::size_t bytes = 1; bytes <= text.size(); ++bytes) {
      const auto last = std::find(keys.rbegin(), keys.rend(), text.substr(0, bytes));
      if (last != keys.rend())
        expected.emplace_back(bytes, static_cast<std::int32_t>(keys.rend() - last) - 1);
    }
    trie.for_each_prefix(text,
                         [&](std::size_t bytes, std::int32_t value) { found.emplace_back(bytes, value); });
    EXPECT_EQ(found, expected) << text;
  }
}

TEST(WordCache, GivesNoWordTheIdsOfAnother) {
  WordCache cache;
  std::mt19937 random(5);
  for (std::int32_t i = 0; i < 200'000; ++i) {
    const std::string word = std::to_string(random() % 100'000);
    const std::int32_t number = std::stoi(word);
    const auto known = cache.find(word);
    if (!known.empty()) {
      ASSERT_EQ(known.size(), static_cast<std::size_t>(number % 8 + 1));
      ASSERT_EQ(known.back(), number);
    }
    cache.insert(word, Ids(static_cast<std::size_t>(number % 8 + 1), number));
    ASSERT_FALSE(cache.find(word).empty());
  }
  const std::string longest(WordCache::kMostBytes, 'x');
  cache.insert(longest, Ids{1});
  cache.insert(longest + "x", Ids{2});
  cache.insert("many", Ids(WordCache::kMostIds + 1));
  EXPECT_EQ(cache.find(longest).size(), 1U);
  EXPECT_TRUE(cache.find(longest + "x").empty());
  EXPECT_TRUE(cache.find("many").empty());
}

/// Oniguruma's library exports a regcomp() of its own, whose syntax knows no intervals
/// (cmake/oniguruma.cmake).
TEST(Patterns, OfTheCLibraryKeepTheirSyntaxBesideOniguruma) {
  EXPECT_THAT("aaab", ::testing::MatchesRegex("a{3}b"));
}

}  // namespace
}  // namespace strata::text
