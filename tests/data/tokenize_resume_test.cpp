// A stopped tokenize_files() goes on to the bytes of one that was not stopped, wherever it was.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/file.h"
#include "engine/config/choices.h"
#include "engine/input/data/token_files.h"
#include "engine/input/data/tokenize.h"
#include "tests/base/faulty_file_system.h"
#include "tests/data/corpus.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using test::Fault;
using test::FaultyFileSystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ResumedTokenize : public ::testing::Test {
 protected:
  ResumedTokenize() {
    std::string lines, text;
    for (int i = 0; i < 5; ++i) {
      lines += R"({"text": "line )" + std::to_string(i * i) + "\"}\n\n";
      // The first id that is not trained on is in the middle.
      if (i == 2)
        lines += R"({"prompt": "what", "completion": " is it"})"
                 "\n";
      text += "Zeile " + std::to_string(i) + " – слово 🙂,\nund weiter.\n";
    }
    files_ = {corpus_.write("a.txt", "a text"), corpus_.write("b.jsonl", lines), corpus_.write("c.txt", text),
              corpus_.write("d.txt", "")};
    expected_ = made("expected", FileSystem::real());
  }

  struct Made {
    std::string data, index, marks;
    friend bool operator==(const Made&, const Made&) = default;
  };
  TokenizeProgress tokenize(const std::string& prefix, FileSystem& file_system,
                            const std::string& name = "name") const {
    const TokenizeOptions options = {
        .name = name, .borders = {.end = 0}, .batch_bytes = 80, .part_bytes = 60, .files = &file_system};
    return tokenize_files(tokenizer_, files_, corpus_.path(prefix), options);
  }
  Made files_of(const std::string& prefix) const {
    const std::string path = corpus_.path(prefix);
    return {read_file(path + ".bin"), read_file(path + ".idx"), read_file(path + ".trained")};
  }
  Made made(const std::string& prefix, FileSystem& file_system) const {
    tokenize(prefix, file_system);
    return files_of(prefix);
  }
  std::size_t files_beside(const std::string& prefix) const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus_.path("")))
      count += entry.path().filename().string().starts_with(prefix + ".") ? 1 : 0;
    return count;
  }

  Corpus corpus_;
  const text::Tokenizer tokenizer_ =
      text::Tokenizer::read(test::source_folder() / "tests/text/goldens/gpt2.tokenizer.json");
  std::vector<std::string> files_;
  Made expected_;
};

// Invariant of failures (ResumedTokenize*.*): Unfinished work never looks finished. `strata tokenize` may
// stop at any file operation. No `.bin` file is there then, and the same command resumes to the bytes of a
// run that was not stopped.
// Invariant (ResumedTokenize.*): Tokens are those of the original.
TEST_F(ResumedTokenize, HasTheIdsOfTextsThatAreEncodedWhole) {
  const TokenizeOptions whole = {.name = {}, .borders = {.end = 0}};
  tokenize_files(tokenizer_, files_, corpus_.path("whole"), whole);
  EXPECT_EQ(files_of("whole"), expected_);
  const TokenSegment opened = open_token_file(corpus_.path("whole.bin"), 2);
  EXPECT_GT(opened.tokens(), 100);
  EXPECT_EQ(files_beside("whole"), 3U);
}

class ResumedTokenizeAfter : public ResumedTokenize, public ::testing::WithParamInterface<Fault> {};

TEST_P(ResumedTokenizeAfter, HasTheBytesOfOneThatWasNotStoppedWhereverItWas) {
  int unfinished = 0;
  bool failed = true;
  for (int fail_at = 0; failed; ++fail_at) {
    const std::string prefix = "tokens" + std::to_string(fail_at);
    FaultyFileSystem stopping(fail_at, GetParam());
    try {
      tokenize(prefix, stopping);
    } catch (const IoError&) {
    }
    failed = stopping.operations() > fail_at;
    if (GetParam() == Fault::power_loss) stopping.lose_unsynced();
    // Without a .bin nobody takes it for tokens.
    if (is_there(corpus_.path(prefix + ".bin"))) {
      ASSERT_EQ(files_of(prefix), expected_) << fail_at;
      continue;
    }
    ++unfinished;
    FaultyFileSystem working;
    const TokenizeProgress done = tokenize(prefix, working);
    ASSERT_EQ(files_of(prefix), expected_) << fail_at;
    EXPECT_EQ(done.bytes + 11, done.all_bytes) << "but for the ends of lines and those without anything";
    EXPECT_EQ(files_beside(prefix), 3U);
  }
  EXPECT_GT(unfinished, 40);
}

INSTANTIATE_TEST_SUITE_P(All, ResumedTokenizeAfter,
                         ::testing::Values(Fault::error, Fault::kill, Fault::power_loss),
                         [](const auto& info) {
                           return info.param == Fault::error  ? "Error"
                                  : info.param == Fault::kill ? "Kill"
                                                              : "PowerLoss";
                         });

TEST_F(ResumedTokenize, GoesOnWhereItWasStopped) {
  FaultyFileSystem counting;
  tokenize("counted", counting);
  FaultyFileSystem stopping(counting.operations() / 2, Fault::kill);
  EXPECT_THROW(tokenize("tokens", stopping), IoError);
  FaultyFileSystem working;
  const TokenizeProgress done = tokenize("tokens", working);
  EXPECT_GT(done.found, 80);
  EXPECT_LT(done.found, done.bytes);
  EXPECT_LT(working.operations(), counting.operations() * 2 / 3);
}

TEST_F(ResumedTokenize, RefusesProgressOfOtherTextsAndWhatIsDamaged) {
  FaultyFileSystem stopping(40, Fault::kill);
  EXPECT_THROW(tokenize("tokens", stopping), IoError);
  const std::string file = corpus_.path("tokens.progress");
  EXPECT_THAT(
      refusal([&] { tokenize("tokens", FileSystem::real(), "other"); }),
      AllOf(HasSubstr(file + " is of other texts"), HasSubstr("remove it with the unfinished files")));
  const std::string stored = read_file(file);
  std::string damaged = stored;
  damaged.replace(damaged.find("strata"), 6, "STRATA");
  corpus_.write("tokens.progress", damaged);
  EXPECT_THAT(refusal([&] { tokenize("tokens", FileSystem::real()); }), HasSubstr(file + " is damaged"));
  corpus_.write("tokens.progress", stored);
  EXPECT_EQ(made("tokens", FileSystem::real()), expected_);
}

TEST_F(ResumedTokenize, RefusesToReplaceWhatHasComeThereMeanwhile) {
  FaultyFileSystem stopping(40, Fault::kill);
  EXPECT_THROW(tokenize("tokens", stopping), IoError);
  corpus_.write("tokens.bin", "precious");
  EXPECT_THAT(refusal([&] { tokenize("tokens", FileSystem::real()); }),
              HasSubstr("tokens.bin exists already"));
  EXPECT_EQ(read_file(corpus_.path("tokens.bin")), "precious");
}

}  // namespace
}  // namespace strata
