#include "engine/input/data/token_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/config/choices.h"
#include "tests/data/corpus.h"

namespace strata {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kLarge = 200'000;

std::vector<std::int32_t> all_tokens(const TokenSource& source) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(source.tokens()));
  source.read(0, tokens);
  return tokens;
}

std::vector<std::int32_t> tokens_of(const TokenSegment& segment, std::int64_t vocabulary = kLarge) {
  return all_tokens(TokenSource({segment}, vocabulary));
}

TEST(Text, IsBytesWithAZeroAtTheEndOfEachFile) {
  const Corpus corpus;
  const TokenSource source({open_text(corpus.write("a", "hi\xff")), open_text(corpus.write("b", "!"))}, 256);
  EXPECT_THAT(all_tokens(source), ElementsAre('h', 'i', 255, 0, '!', 0));
}

TEST(Text, ThatIsEmptyHasNoTokens) {
  const Corpus corpus;
  EXPECT_EQ(open_text(corpus.write("a", "")).tokens(), 0);
}

TEST(FlatFiles, WithoutAHeaderHoldIdsOfTheGivenWidth) {
  const Corpus corpus;
  EXPECT_THAT(tokens_of(open_token_file(corpus.write("a.bin", packed<std::uint16_t>({1, 65535, 3})), 2)),
              ElementsAre(1, 65535, 3));
  EXPECT_THAT(tokens_of(open_token_file(corpus.write("b.bin", packed<std::uint32_t>({1, 128255})), 4)),
              ElementsAre(1, 128255));
}

TEST(FlatFiles, WithAPartOfATokenAreRefused) {
  const Corpus corpus;
  const std::string path = corpus.write("a.bin", "abc");
  EXPECT_EQ(refusal([&] { open_token_file(path, 2); }),
            path + ": 3 bytes are not a whole number of 2-byte token ids (data.token_bytes)");
}

TEST(LlmcFiles, AreKnownByTheirMagicNumber) {
  const Corpus corpus;
  EXPECT_THAT(
      tokens_of(open_token_file(corpus.write_llmc<std::uint16_t>("a.bin", 20240520, 1, {5, 50256}), 4)),
      ElementsAre(5, 50256));
  EXPECT_THAT(
      tokens_of(open_token_file(corpus.write_llmc<std::uint32_t>("b.bin", 20240801, 7, {5, 128000}), 2)),
      ElementsAre(5, 128000));
}

/// Ids spread over [0, vocabulary), as text has them.
template <typename T>
std::vector<T> spread_ids(int count, std::uint32_t vocabulary) {
  std::vector<T> ids;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(count); ++i)
    ids.push_back(static_cast<T>(i * 40503U % vocabulary));
  return ids;
}

TEST(RawFiles, OfFourByteIdsAreNotReadAsTwoByteOnes) {
  const Corpus corpus;
  for (const std::uint32_t vocabulary : {256U, 50257U, 151936U}) {
    const std::string path = corpus.write("a.bin", packed(spread_ids<std::uint32_t>(2000, vocabulary)));
    EXPECT_EQ(refusal([&] { open_token_file(path, 2); }),
              path +
                  ": every second 2-byte number is 0 or nearly, as in a file of 4-byte token ids: set "
                  "data.token_bytes to 4")
        << vocabulary;
    EXPECT_EQ(open_token_file(path, 4).ids, 2000);
  }
}

TEST(RawFiles, OfEightByteIdsAreReadAsSuchAndNotAsNarrowerOnes) {
  const Corpus corpus;
  for (const std::uint32_t vocabulary : {256U, 50257U, 151936U}) {
    const auto ids = spread_ids<std::int64_t>(2000, vocabulary);
    const std::string path = corpus.write("a.bin", packed(ids));
    EXPECT_EQ(refusal([&] { open_token_file(path, 4); }),
              path +
                  ": every second 4-byte number is 0 or nearly, as in a file of 8-byte token ids: set "
                  "data.token_bytes to 8");
    EXPECT_EQ(
        refusal([&] { open_token_file(path, 2); }),
        path +
            ": of four each time three 2-byte numbers are 0 or nearly, as in a file of 8-byte token ids: "
            "set data.token_bytes to 8");
    const std::vector<std::int32_t> read = tokens_of(open_token_file(path, 8));
    EXPECT_TRUE(std::ranges::equal(read, ids)) << vocabulary;
  }
  const auto megatron = corpus.write_megatron<std::int64_t>("wide", 5, {{7}, {128000, 9}});
  EXPECT_THAT(tokens_of(open_token_file(megatron + ".bin", 2)), ElementsAre(7, 128000, 9));
}

TEST(RawFiles, OfEightByteIdsAreHeldAgainstTheVocabularyWhole) {
  const Corpus corpus;
  for (const std::int64_t id : {std::int64_t{1} << 32, std::int64_t{-1}, std::int64_t{5}}) {
    const std::string path = corpus.write("a.bin", packed<std::int64_t>({1, id}));
    EXPECT_THAT(refusal([&] { TokenSource({open_token_file(path, 8)}, 5); }),
                HasSubstr(fmt::format("token 1 has the id {}, but the model's vocabulary has 5 ids", id)));
  }
  const std::string narrow = corpus.write("a.bin", packed(spread_ids<std::uint32_t>(2000, 50257)));
  EXPECT_THAT(refusal([&] { TokenSource({open_token_file(narrow, 8)}, 50257); }),
              HasSubstr("or set data.token_bytes to 4 if the file has such ids"));
}

TEST(RawFiles, OfTwoByteIdsArePlainWhateverTheyHold) {
  const Corpus corpus;
  std::vector<std::uint16_t> begins_and_pads(5000, 0);
  begins_and_pads[0] = 5;
  for (const auto& ids :
       {spread_ids<std::uint16_t>(2000, 50257), spread_ids<std::uint16_t>(2000, 16), begins_and_pads,
        std::vector<std::uint16_t>(2000, 0), std::vector<std::uint16_t>(2000, 7)}) {
    EXPECT_EQ(open_token_file(corpus.write("a.bin", packed(ids)), 2).ids, std::ssize(ids));
  }
}

TEST(RawFiles, OfTwoByteIdsReadAsFourByteOnesAreBeyondTheVocabulary) {
  const Corpus corpus;
  const std::string path = corpus.write("a.bin", packed(spread_ids<std::uint16_t>(2000, 50257)));
  EXPECT_THAT(refusal([&] { TokenSource({open_token_file(path, 4)}, 50257); }),
              HasSubstr("or set data.token_bytes to 2 if the file has such ids"));
}

TEST(LlmcFiles, OfAnotherVersionOrLengthAreRefused) {
  const Corpus corpus;
  const std::string version = corpus.write_llmc<std::uint16_t>("a.bin", 20240520, 2, {1});
  EXPECT_EQ(refusal([&] { open_token_file(version, 2); }),
            version + ": an llm.c token file of version 2; version 1 is supported");
  const std::string cut = corpus.write_llmc<std::uint16_t>("b.bin", 20240520, 1, {1, 2, 3});
  std::filesystem::resize_file(cut, 1024 + 4);
  EXPECT_EQ(refusal([&] { open_token_file(cut, 2); }),
            cut + ": its header promises 3 tokens, 1030 bytes in all, but the file has 1028");
}

TEST(MegatronFiles, HoldIdsOfTheTypeInTheirIndex) {
  const Corpus corpus;
  const auto wide = corpus.write_megatron<std::uint16_t>("wide", 8, {{1, 2, 60000}, {}, {4}});
  EXPECT_THAT(tokens_of(open_token_file(wide + ".bin", 4)), ElementsAre(1, 2, 60000, 4));
  const auto wider = corpus.write_megatron<std::int32_t>("wider", 4, {{7}, {128000, 9}});
  EXPECT_THAT(tokens_of(open_token_file(wider + ".bin", 2)), ElementsAre(7, 128000, 9));
  const auto narrow = corpus.write_megatron<std::uint8_t>("narrow", 1, {{200, 3}});
  EXPECT_THAT(tokens_of(open_token_file(narrow + ".bin", 2)), ElementsAre(200, 3));
}

class BrokenMegatronIndex : public ::testing::Test {
 protected:
  /// The refusal after `replacement` was written over the index at `offset`.
  std::string refused_with(std::size_t offset, const std::string& replacement) const {
    const std::string prefix = corpus_.write_megatron<std::uint16_t>("p", 8, {{1, 2}, {3}});
    std::fstream index(prefix + ".idx", std::ios::in | std::ios::out | std::ios::binary);
    index.seekp(static_cast<std::streamoff>(offset));
    index << replacement;
    index.close();
    return refusal([&] { open_token_file(prefix + ".bin", 2); });
  }

  Corpus corpus_;
};

TEST_F(BrokenMegatronIndex, IsRefusedWithTheReason) {
  EXPECT_THAT(refused_with(0, "X"), HasSubstr("p.idx: this is not a Megatron index"));
  EXPECT_THAT(refused_with(9, packed<std::uint64_t>({2})),
              HasSubstr("index version 2; version 1 is supported"));
  EXPECT_THAT(refused_with(17, "\x06"), HasSubstr("its type code 6 is not one of"));
  EXPECT_THAT(refused_with(18, packed<std::uint64_t>({std::uint64_t{1} << 61})),
              HasSubstr("promises 2305843009213693952"));
  EXPECT_THAT(refused_with(26, packed<std::uint64_t>({100})), HasSubstr("2 sequences and 100 documents"));
  EXPECT_THAT(refused_with(34, packed<std::int32_t>({-2})), HasSubstr("sequence 0 does not follow"));
  EXPECT_THAT(refused_with(34 + 8 + 8, packed<std::int64_t>({2})), HasSubstr("sequence 1 does not follow"));
  EXPECT_THAT(refused_with(34 + 4, packed<std::int32_t>({2})),
              HasSubstr("promises 8 bytes, but the file has 6"));
}

TEST(FindTokenFiles, ListsEachFileOnceByName) {
  const Corpus corpus;
  const auto b = corpus.write("b.txt", "x");
  const auto a = corpus.write("a.txt", "x");
  EXPECT_THAT(find_token_files({b, corpus.path("*.txt")}, Tokenizer::bytes, "data.path"), ElementsAre(a, b));
}

TEST(FindTokenFiles, TakesAMegatronPrefixOrEitherOfItsFiles) {
  const Corpus corpus;
  const std::string prefix = corpus.write_megatron<std::uint16_t>("text_document", 8, {{1}});
  corpus.write("text_document.trained", std::string(1, '\1'));
  for (const std::string& pattern :
       {prefix, prefix + ".idx", prefix + ".bin", prefix + ".trained", prefix + ".*"}) {
    EXPECT_THAT(find_token_files({pattern}, Tokenizer::none, "data.path"), ElementsAre(prefix + ".bin"))
        << pattern;
  }
}

TEST(FindTokenFiles, RefusesWhatItCannotUse) {
  const Corpus corpus;
  const std::string text = corpus.write("sub/a.txt", "x");
  const auto refused = [&](const std::string& pattern, Tokenizer tokenizer) {
    return refusal([&] { find_token_files({pattern}, tokenizer, "data.path"); });
  };
  EXPECT_EQ(refused(corpus.path("*.txt"), Tokenizer::bytes),
            "data.path: no file matches " + corpus.path("*.txt"));
  EXPECT_EQ(refused(corpus.path("sub"), Tokenizer::bytes),
            "data.path: " + corpus.path("sub") + " is a folder; name its files, as " + corpus.path("sub/*"));
  EXPECT_EQ(refused(text, Tokenizer::none), "data.path: " + text +
                                                " is not a .bin file of token ids; for text set "
                                                "data.tokenizer to bytes, or data.format to tokens if "
                                                "it holds ids");
  EXPECT_THAT(find_token_files({text}, Tokenizer::none, "data.path", DataFormat::tokens), ElementsAre(text));
}

TEST(TokenSource, ReadsAnyRangeAcrossFiles) {
  const Corpus corpus;
  std::vector<std::uint16_t> ids(5);
  std::iota(ids.begin(), ids.end(), std::uint16_t{100});
  const TokenSource source(
      {open_text(corpus.write("a", "xyz")), open_token_file(corpus.write("b.bin", packed(ids)), 2),
       open_text(corpus.write("c", "!"))},
      kLarge);
  const std::vector<std::int32_t> all = {'x', 'y', 'z', 0, 100, 101, 102, 103, 104, '!', 0};
  ASSERT_EQ(all_tokens(source), all);
  for (std::size_t first = 0; first < all.size(); ++first) {
    for (std::size_t count = 0; first + count <= all.size(); ++count) {
      std::vector<std::int32_t> part(count);
      source.read(static_cast<std::int64_t>(first), part);
      EXPECT_EQ(part, std::vector(all.begin() + static_cast<std::ptrdiff_t>(first),
                                  all.begin() + static_cast<std::ptrdiff_t>(first + count)));
    }
  }
}

TEST(TokenSource, HasNoTargetWhereATokenIsNotTrainedOn) {
  const Corpus corpus;
  const std::string prefix = corpus.write_megatron<std::uint16_t>("p", 8, {{10, 11, 12}, {13}});
  corpus.write("p.trained", std::string("\0\1\0\1", 4));
  const TokenSource source({open_text(corpus.write("a", "x")), open_token_file(prefix + ".bin", 2)}, kLarge);
  EXPECT_FALSE(source.are_all_trained());
  EXPECT_EQ(all_tokens(source), (std::vector{'x' + 0, 0, 10, 11, 12, 13}));
  const std::vector<std::int32_t> targets = {'x', 0, kUntrained, 11, kUntrained, 13};
  for (std::size_t first = 0; first < targets.size(); ++first) {
    for (std::size_t count = 0; first + count <= targets.size(); ++count) {
      const std::vector expected(targets.begin() + static_cast<std::ptrdiff_t>(first),
                                 targets.begin() + static_cast<std::ptrdiff_t>(first + count));
      std::vector<std::int32_t> part(count);
      source.read(static_cast<std::int64_t>(first), part);
      source.leave_out_untrained(static_cast<std::int64_t>(first), part);
      EXPECT_EQ(part, expected);
      EXPECT_EQ(source.trained(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)),
                static_cast<std::int64_t>(count) - std::ranges::count(expected, kUntrained));
    }
  }
}

TEST(OpenTokenFile, WantsAMarkForEachId) {
  const Corpus corpus;
  const std::string prefix = corpus.write_megatron<std::uint16_t>("p", 8, {{10, 11, 12}});
  const std::string marks = corpus.write("p.trained", "\1\1");
  EXPECT_EQ(refusal([&] { open_token_file(prefix + ".bin", 2); }),
            marks + ": it has 2 bytes, and " + prefix + ".bin has 3 ids; it needs one for each");
}

TEST(TokenSource, RefusesAnIdBeyondTheVocabularyAtTheStart) {
  const Corpus corpus;
  const std::string path = corpus.write("a.bin", packed<std::uint16_t>({0, 255, 256, 7}));
  EXPECT_EQ(tokens_of(open_token_file(path, 2), 257).size(), 4U);
  EXPECT_THAT(
      refusal([&] { TokenSource({open_token_file(path, 2)}, 256); }),
      HasSubstr(path + ": token 2 has the id 256, but the model's vocabulary has 256 ids (0 to 255)"));
  const std::string text = corpus.write("a.txt", "abc");
  EXPECT_THAT(refusal([&] { TokenSource({open_text(text)}, 99); }), HasSubstr("token 2 has the id 99"));
}

TEST(TokenSource, RefusesANegativeId) {
  const Corpus corpus;
  const std::string prefix = corpus.write_megatron<std::int32_t>("p", 4, {{1, -5}});
  EXPECT_THAT(refusal([&] { TokenSource({open_token_file(prefix + ".bin", 2)}, kLarge); }),
              HasSubstr("token 1 has the id -5"));
}

TEST(TokenSource, RefusesALateBadIdWhenItIsRead) {
  const Corpus corpus;
  // Longer than what is checked at the start; sparse, so that the file takes no space.
  const std::string path = corpus.write("a.bin", "");
  constexpr std::int64_t kTokens = 40'000'000;
  std::filesystem::resize_file(path, 2 * kTokens);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(2 * (kTokens - 3)) << "\xe8\x03";
  const TokenSource source({open_token_file(path, 2)}, 1000);
  std::vector<std::int32_t> tokens(8);
  source.read(kTokens - 11, tokens);
  EXPECT_THAT(refusal([&] { source.read(kTokens - 10, tokens); }),
              AllOf(HasSubstr(path), HasSubstr("token 39999997 has the id 1000")));
}

TEST(MappedFile, RefusesWhatItCannotOpen) {
  const Corpus corpus;
  EXPECT_EQ(refusal([&] { MappedFile(corpus.path("missing")); }),
            "cannot open " + corpus.path("missing") + ": No such file or directory");
  EXPECT_EQ(refusal([&] { MappedFile("/dev/null"); }), "/dev/null is not a regular file");
}

}  // namespace
}  // namespace strata
