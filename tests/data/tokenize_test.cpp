// Text files as a file of token ids: what is written is what the tokenizer gives, whatever encodes it.
#include "engine/input/data/tokenize.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "engine/config/choices.h"
#include "engine/input/text/tokenizer.h"
#include "tests/data/corpus.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

text::Tokenizer golden(const std::string& name) {
  return text::Tokenizer::read(test::source_folder() / "tests/text/goldens" / (name + ".tokenizer.json"));
}

class Tokenize : public ::testing::Test {
 protected:
  Tokenize() {
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (int line = 0; line < i * i; ++line)
        text += "Zeile " + std::to_string(line * i) + " – слово 🙂\n";
      files_.push_back(corpus_.write("text" + std::to_string(i), text));
    }
  }
  std::vector<std::int32_t> expected(const text::Tokenizer& tokenizer, std::int32_t end) const {
    std::vector<std::int32_t> ids;
    for (const std::string& file : files_) {
      const std::string text = read_file(file);
      tokenizer.encode(text, ids, text::AddSpecial::no);
      if (!text.empty()) ids.push_back(end);
    }
    return ids;
  }

  Corpus corpus_;
  std::vector<std::string> files_;  ///< the first is empty
};

// Invariant (Tokenize.*): Tokens are those of the original.
TEST_F(Tokenize, WritesEachTextsIdsAndTheEndBehindThem) {
  const text::Tokenizer tokenizer = golden("gpt2");
  for (const int threads : {1, 3}) {
    const std::string prefix = corpus_.path("tokens" + std::to_string(threads));
    const TokenizeProgress done =
        tokenize_files(tokenizer, files_, prefix, {.borders = {.end = 0}, .threads = threads});
    const std::vector<std::int32_t> ids = expected(tokenizer, 0);
    EXPECT_EQ(ids_in(prefix + ".bin"), ids);
    EXPECT_EQ(done.documents, 39);
    EXPECT_EQ(done.tokens, std::ssize(ids));
    EXPECT_EQ(done.bytes, done.all_bytes);
    EXPECT_FALSE(is_there(prefix + ".bin.tmp"));
  }
  EXPECT_EQ(read_file(corpus_.path("tokens1.idx")), read_file(corpus_.path("tokens3.idx")));
}

/// A vocabulary whose last id has more than two bytes.
TEST_F(Tokenize, TakesFourBytesWhereIdsNeedThem) {
  const text::Tokenizer tokenizer = text::Tokenizer::parse(
      R"({"model": {"type": "BPE", "vocab": {"a": 3, "b": 70000}, "merges": []}})", "tokenizer.json");
  const std::string prefix = corpus_.path("wide");
  tokenize_files(tokenizer, std::vector{corpus_.write("ab", "aab")}, prefix, {.borders = {.end = 70000}});
  EXPECT_THAT(ids_in(prefix + ".bin"), ::testing::ElementsAre(3, 3, 70000, 70000));
}

TEST_F(Tokenize, LeavesWhatIsThere) {
  for (const char* extension : {".bin", ".idx", ".bin.tmp"}) {
    const std::string prefix = corpus_.path(std::string("mine") + extension);
    const std::string file = corpus_.write(std::string("mine") + extension + extension, "precious");
    EXPECT_EQ(refusal([&] { tokenize_files(golden("gpt2"), files_, prefix, {}); }),
              file + " exists already: remove it, or choose another name");
    EXPECT_EQ(read_file(file), "precious");
  }
}

TEST_F(Tokenize, SaysWhichTextItCannotEncodeAndLeavesNothing) {
  const text::Tokenizer tokenizer = text::Tokenizer::parse(
      R"({"model": {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": null}})", "tokenizer.json");
  const std::string file = corpus_.write("strange", "aaz"), prefix = corpus_.path("tokens");
  EXPECT_THAT(refusal([&] { tokenize_files(tokenizer, std::vector{file}, prefix, {.threads = 2}); }),
              HasSubstr(file + ": "));
  for (const char* extension : {".bin", ".idx", ".bin.tmp", ".idx.tmp"})
    EXPECT_FALSE(is_there(prefix + extension)) << extension;
}

TEST_F(Tokenize, SaysWhatIsWrongWithAFolderOfSentencePieceAlone) {
  corpus_.write("model/tokenizer.model", "a protocol buffer");
  EXPECT_THAT(refusal([&] { tokenizer_file_of(corpus_.path("model")); }),
              HasSubstr("tokenizer.model is there without a tokenizer.json"));
  std::filesystem::remove(corpus_.path("model/tokenizer.model"));
  corpus_.write("model/vocab.json", "{}");
  EXPECT_THAT(refusal([&] { tokenizer_file_of(corpus_.path("model")); }),
              HasSubstr("vocab.json is there without a tokenizer.json"));
}

}  // namespace
}  // namespace strata
