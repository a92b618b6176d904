// Ids of texts that are kept: made once, by what tokenizer and texts contain, and equal to what a tokenizer
// gives.
#include "engine/input/data/token_cache.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <random>

#include "base/file.h"
#include "base/folder_lock.h"
#include "engine/config/data_section.h"
#include "engine/input/data/batch_loader.h"
#include "tests/base/expect_error.h"
#include "tests/data/corpus.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenCache : public ::testing::Test {
 protected:
  TokenCache() {
    std::filesystem::create_directories(corpus_.path("model"));
    std::filesystem::copy_file(source_file("gpt2"), corpus_.path("model/tokenizer.json"));
    corpus_.write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
    data_.tokenizer = Tokenizer::automatic;
    data_.tokenizer_path = corpus_.path("model");
    data_.cache = corpus_.path("cache");
  }

  static std::filesystem::path source_file(const std::string& name) {
    return test::source_folder() / "tests/text/goldens" / (name + ".tokenizer.json");
  }
  /// The entry's .bin, and whether it was made by this call.
  std::pair<std::string, bool> ask(const std::vector<std::string>& files) const {
    bool is_new = false;
    const CacheListeners listeners = {.on_progress = [&](const TokenizeProgress&) { is_new = true; }};
    std::string ids = cached_tokens(data_, files, 2, listeners).file;
    return {ids, is_new};
  }
  std::vector<std::int32_t> ids_of(const std::vector<std::string>& texts) const {
    const text::Tokenizer tokenizer = text::Tokenizer::read(data_.tokenizer_path + "/tokenizer.json");
    std::vector<std::int32_t> ids;
    for (const std::string& text : texts) {
      tokenizer.encode(text, ids, text::AddSpecial::no);
      ids.push_back(tokenizer.id_of("<|endoftext|>").value());
    }
    return ids;
  }

  Corpus corpus_;
  DataSection data_;
};

// Invariant (TokenCache.*): Untrained tokens have no loss.
TEST_F(TokenCache, MakesIdsOnceForEveryContent) {
  const std::string first = corpus_.write("a.txt", "a text"),
                    second = corpus_.write("b.txt", "another – one");
  const auto [ids, is_new] = ask({first, second});
  EXPECT_TRUE(is_new);
  EXPECT_EQ(ids_in(ids), ids_of({"a text", "another – one"}));
  EXPECT_EQ(ask({first, second}), std::pair(ids, false));
  const std::string renamed = corpus_.write("c.txt", "a text");
  EXPECT_EQ(ask({renamed, second}), std::pair(ids, false));
  EXPECT_NE(ask({second, first}).first, ids);
  corpus_.write("b.txt", "another – two");
  const auto [changed, is_changed] = ask({first, second});
  EXPECT_TRUE(is_changed);
  EXPECT_EQ(ids_in(changed), ids_of({"a text", "another – two"}));
}

/// A byte anywhere, a cut, or a file that is gone.
TEST_F(TokenCache, MakesAnewWhatIsNotAsItWasWrittenAndSaysSo) {
  const std::string file = corpus_.write("a.txt", "a text and some more of it");
  const std::filesystem::path made = ask({file}).first;
  const std::string whole = read_file(made);
  std::mt19937 random(5);
  for (int i = 0; i < 12; ++i) {
    const std::filesystem::path damaged =
        std::filesystem::path(made).replace_extension(i % 2 ? ".idx" : ".bin");
    std::string content = read_file(damaged);
    if (i < 10) {
      content[random() % content.size()] ^= static_cast<char>(1 + random() % 255);
    } else {
      content.resize(random() % content.size());
    }
    std::filesystem::remove(damaged);
    corpus_.write(std::filesystem::relative(damaged, corpus_.path("")), content);
    std::vector<std::string> warnings;
    const CacheListeners listeners = {
        .on_warning = [&](const std::string& sentence) { warnings.push_back(sentence); }};
    const CachedTokens again = cached_tokens(data_, std::vector{file}, 2, listeners);
    EXPECT_EQ(again.file, made);
    EXPECT_EQ(read_file(made), whole);
    EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("data.cache: "), HasSubstr("made anew"))));
  }
  std::filesystem::remove(std::filesystem::path(made).replace_extension(".idx"));
  EXPECT_TRUE(ask({file}).second);
  EXPECT_FALSE(ask({file}).second);
}

TEST_F(TokenCache, MakesThemAnewForAnotherTokenizerOrEnd) {
  const std::string file = corpus_.write("a.txt", "a text");
  const std::string ids = ask({file}).first;
  corpus_.write("model/tokenizer_config.json", R"({"eos_token": "a"})");
  EXPECT_NE(ask({file}).first, ids);
  corpus_.write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  EXPECT_EQ(ask({file}).first, ids);
  corpus_.write("model/tokenizer.json", read_file(corpus_.path("model/tokenizer.json")) + "\n");
  EXPECT_NE(ask({file}).first, ids);
}

TEST_F(TokenCache, FindsTheEndWhereOlderFoldersHaveIt) {
  const std::string file = corpus_.write("a.txt", "a text");
  const std::string ids = ask({file}).first;
  corpus_.write("model/tokenizer_config.json", R"({"model_max_length": 1024})");
  corpus_.write("model/special_tokens_map.json", R"({"eos_token": {"content": "<|endoftext|>"}})");
  EXPECT_EQ(ask({file}).first, ids);
}

TEST_F(TokenCache, TakesALineOfAJsonlAsATextOfItsOwn) {
  const std::string file = corpus_.write("a.jsonl",
                                         "{\"text\": \"a \\u00fc text\", \"id\": 3}\n"
                                         "  \r\n"
                                         "{\"text\": \"\"}\n"
                                         "{\"text\": \"another\\nline\"}");
  EXPECT_EQ(ids_in(ask({file}).first), ids_of({"a ü text", "another\nline"}));
  std::filesystem::rename(file, corpus_.path("a.JSONL"));
  EXPECT_EQ(ids_in(ask({corpus_.path("a.JSONL")}).first), ids_of({"a ü text", "another\nline"}));
}

TEST_F(TokenCache, TakesAnElementOfAJsonArrayAsATextOfItsOwn) {
  const std::string file =
      corpus_.write("a.json", "[{\"text\": \"a \\u00fc text\"},\n {\"text\": \"another\"}]");
  EXPECT_EQ(ids_in(ask({file}).first), ids_of({"a ü text", "another"}));
  corpus_.write("a.json", "[\n{\"text\": \"a comma too many\",}]");
  EXPECT_THAT(refusal([&] { ask({file}); }), HasSubstr("a.json:2:29: this is not valid JSON"));
}

TEST_F(TokenCache, TakesTheKeysOfALineThatAreNotNull) {
  const std::string file =
      corpus_.write("a.jsonl", R"({"text": "a text", "messages": null, "prompt": null, "completion": null})");
  EXPECT_EQ(ids_in(ask({file}).first), ids_of({"a text"}));
}

TEST_F(TokenCache, RefusesAFileThatIsNoText) {
  const std::string file = corpus_.write("a.txt.gz", std::string("\x1f\x8b\0\1", 4));
  EXPECT_THAT(refusal([&] { ask({file}); }),
              HasSubstr("a.txt.gz: this is compressed (gzip), which is not read"));
}

TEST_F(TokenCache, RefusesAFileWithAZeroByte) {
  const std::string file = corpus_.write("a.txt", std::string("a\0b", 3));
  EXPECT_THAT(refusal([&] { ask({file}); }), HasSubstr("a.txt: there is a zero byte in it"));
}

TEST_F(TokenCache, SaysWhatTextsWereReadAsEachTime) {
  const std::vector<std::string> files = {corpus_.write("a.txt", "\xEF\xBB\xBFgr\xFCn \xE9"),
                                          corpus_.write("b.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}")};
  DocumentsRead expected;
  expected.documents[0] = 3;
  expected.byte_order_marks = 1;
  expected.replaced = 2;
  expected.first_replaced = files[0];
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cached_tokens(data_, files, 1).read, expected);
}

/// What is kept under the hash of a text is of that text.
TEST_F(TokenCache, KeepsNothingOfATextThatChangedMeanwhile) {
  const std::string other = corpus_.write("a.jsonl", R"({"text": "other"})"),
                    file = corpus_.write("b.jsonl", R"({"text": "a text"})");
  const CacheListeners change = {.on_progress = [&](const TokenizeProgress&) {
    std::filesystem::last_write_time(other, std::filesystem::file_time_type());
  }};
  EXPECT_THAT(refusal([&] {
                cached_tokens(data_, std::vector{other, file}, 1, change);
              }),
              HasSubstr("a.jsonl was written to while it was tokenized"));
  EXPECT_TRUE(ask({other, file}).second);
}

TEST_F(TokenCache, TrainsOnWhatFollowsAPrompt) {
  // More ids than are marked at once stand before the first that is not trained on.
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += "\u00fc" + std::to_string(i % 10);
  const std::string file = corpus_.write("a.jsonl", nlohmann::json{{"text", text}}.dump() + "\n" +
                                                        R"({"prompt": "what", "completion": " is it"})" +
                                                        "\n" + R"({"text": "a text"})" + "\n" +
                                                        R"({"prompt": "", "completion": ""})" + "\n");
  const text::Tokenizer tokenizer = text::Tokenizer::read(data_.tokenizer_path + "/tokenizer.json");
  std::vector<std::int32_t> ids = ids_of({text});
  ASSERT_GT(ids.size(), 65536U);
  std::string marks(ids.size(), '\1');
  tokenizer.encode("what", ids, text::AddSpecial::no);
  marks.resize(ids.size(), '\0');
  tokenizer.encode(" is it", ids, text::AddSpecial::no);
  ids.push_back(tokenizer.id_of("<|endoftext|>").value());
  for (const std::int32_t id : ids_of({"a text"})) ids.push_back(id);
  marks.resize(ids.size(), '\1');
  std::filesystem::path made = ask({file}).first;
  EXPECT_EQ(ids_in(made), ids);
  EXPECT_EQ(read_file(made.replace_extension(".trained")), marks);
  std::filesystem::remove(made);
  EXPECT_THAT(refusal([&] { open_token_file(made.replace_extension(".bin").string(), 2); }),
              HasSubstr("tokens.trained, which marks them, is missing"));
  const std::filesystem::path plain = ask({corpus_.write("b.txt", "a text")}).first;
  EXPECT_FALSE(is_there(plain.parent_path() / "tokens.trained"));
}

TEST_F(TokenCache, NamesTheLineThatIsNoText) {
  const std::string good = "{\"text\": \"good\"}\n";
  for (const auto& [line, complaint] :
       {std::pair("{\"text\": \"half", "a.jsonl:2:15: "),
        {"[\"text\"]", "a.jsonl:2: expected an object"},
        {"{\"prompt\": \"x\"}", "a.jsonl:2: expected an object"},
        {"{\"text\": \"x\", \"completion\": \"y\"}", "a.jsonl:2: expected an object"},
        {"{\"completion\": \"x\", \"id\": null, \"a\\n\": 1}", "; it has \"completion\", \"a\\n\""},
        {"{\"text\": 3}", "a.jsonl:2: \"text\" is not a text"},
        {"{\"prompt\": \"a\", \"completion\": null}", "a.jsonl:2: \"completion\" is not a text"},
        {"{\"text\": \"\xff\"}", "a.jsonl:2:11: "}}) {
    const std::string file = corpus_.write("a.jsonl", good + line + "\n" + good);
    EXPECT_THAT(refusal([&] { ask({file}); }), HasSubstr(complaint)) << line;
  }
}

TEST_F(TokenCache, NamesTheFirstOfManyLines) {
  std::string lines;
  for (int i = 0; i < 500; ++i) lines += i < 2 ? "{\"text\": \"a text that takes a while\"}\n" : "{}\n";
  const std::string file = corpus_.write("a.jsonl", lines);
  for (int i = 0; i < 5; ++i) EXPECT_THAT(refusal([&] { ask({file}); }), HasSubstr("a.jsonl:3: "));
}

/// As a process leaves it that was killed.
TEST_F(TokenCache, BeginsAnewWhereAnEntryIsNotWhole) {
  const std::string file = corpus_.write("a.txt", "a text");
  const std::filesystem::path ids = ask({file}).first;
  std::filesystem::remove(ids.parent_path() / "tokens.idx");
  corpus_.write("half", "half");
  std::filesystem::copy_file(corpus_.path("half"), ids.string() + ".tmp");
  EXPECT_EQ(ask({file}), std::pair(ids.string(), true));
  EXPECT_EQ(ids_in(ids), ids_of({"a text"}));
}

TEST_F(TokenCache, DoesNotWriteWhereAnotherDoes) {
  const std::string file = corpus_.write("a.txt", "a text");
  const std::filesystem::path ids = ask({file}).first;
  std::filesystem::remove(ids.parent_path() / "tokens.idx");
  const FolderLock other(Folder::named(ids.parent_path()), "lock");
  EXPECT_THAT(refusal([&] { ask({file}); }),
              AllOf(HasSubstr("is in use by"), HasSubstr("tokenizes the same texts")));
}

TEST_F(TokenCache, NamesItsKeyIfItsFolderCannotBeMade) {
  const std::string file = corpus_.write("a.txt", "a text");
  data_.cache = file + "/ids";
  test::expect_error<IoError>([&] { ask({file}); }, {"data.cache: cannot create the folder " + data_.cache,
                                                     "set it to a folder that can be written"});
}

TEST_F(TokenCache, SaysWhatIsMissing) {
  const std::string file = corpus_.write("a.txt", "a text");
  std::filesystem::remove(corpus_.path("model/tokenizer_config.json"));
  EXPECT_THAT(refusal([&] { ask({file}); }), HasSubstr("tokenizer_config.json names no eos_token"));
  data_.tokenizer_path = corpus_.path("nothing");
  EXPECT_THAT(refusal([&] { ask({file}); }), HasSubstr("nothing is not there: name a model's folder"));
  data_.tokenizer_path = "Qwen/Qwen3-0.6B";
  EXPECT_THAT(refusal([&] { ask({file}); }), HasSubstr("hf download Qwen/Qwen3-0.6B"));
}

}  // namespace
}  // namespace strata
