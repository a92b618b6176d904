// The words that every program answers: its version, its help, and a word that it does not know.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

class CommandWords : public Workspace {};

/// One line a word of the version: its value without the blanks before it.
std::string version_line(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find("\n" + name);
  if (begin == std::string::npos) return "no line " + name;
  const std::string line = text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
  return line.substr(std::min(line.size(), line.find_first_not_of(' ', name.size())));
}

TEST_F(CommandWords, OfTheVersionSayWhatTheProgramWasBuiltOfAndWhatItFinds) {
  const Outcome version = strata({"--version"});
  EXPECT_EQ(version.status, 0) << version.err;
  EXPECT_THAT(version.out, StartsWith("strata 0."));
  EXPECT_THAT(version_line(version.out, "commit"), MatchesRegex("([0-9a-f]{12} of [0-9-]{10}|unknown: ).*"));
  EXPECT_THAT(version_line(version.out, "build"), MatchesRegex("[A-Z][A-Za-z]+.*, (GCC|Clang) [0-9]+.*"));
  EXPECT_THAT(version_line(version.out, "vector code"), MatchesRegex("(baseline|sse4|avx).*"));
  for (const std::string name : {"CUDA", "cuDNN", "NCCL"})
    EXPECT_THAT(version_line(version.out, name),
                MatchesRegex("(not built in|built with [0-9.]+; found here: .+)"))
        << name;
  EXPECT_THAT(version_line(version.out, "MPI"),
              MatchesRegex("built with (Open )?MPI [0-9.]+; found here: .+"));
  for (const std::string name : {"oneDNN", "liburing"})
    EXPECT_THAT(version_line(version.out, name), MatchesRegex("built with [0-9.]+; found here: [0-9.]+"))
        << name;
  EXPECT_THAT(version_line(version.out, "io_uring"), MatchesRegex("(works here|does not work here: .+)"));
}

TEST_F(CommandWords, OfTheVersionAreThree) {
  const std::string version = strata({"--version"}).out;
  for (const Arguments& words : {Arguments{"-V"}, {"version"}}) {
    const Outcome outcome = strata(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, version) << words.front();
  }
}

TEST_F(CommandWords, OfHelpAreAWordAndAnOption) {
  for (const Arguments& words : {Arguments{}, {"train"}, {"version"}}) {
    Arguments with_word = {"help"};
    with_word.insert(with_word.end(), words.begin(), words.end());
    Arguments with_option = words;
    with_option.emplace_back("--help");
    const Outcome outcome = strata(with_word);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, strata(with_option).out);
    EXPECT_THAT(outcome.out, HasSubstr("--help"));
  }
}

TEST_F(CommandWords, ThatAreMisspeltNameTheNearest) {
  expect_sentence(strata({"trian", "run.yaml"}), 2, {"'trian' is no command", "did you mean 'train'?"});
  expect_sentence(strata({"help", "explian"}), 2, {"'explian' is no command", "did you mean 'explain'?"});
  expect_sentence(strata({"serve"}), 2, {"'serve' is no command: the commands are train, plan, "});
  expect_sentence(strata({"train", "run.yaml", "--jsno=x"}), 2, {"--jsno", "did you mean '--json'?"});
  expect_sentence(strata({"--versoin"}), 2, {"did you mean '--version'?"});
}

TEST_F(CommandWords, OfOtherToolsAreAnsweredWithOurs) {
  const auto answer = [&](const std::string& option) { return strata({"train", "run.yaml", option}); };
  expect_sentence(answer("--resume"), 2, {"a run resumes from its newest checkpoint by itself"});
  expect_sentence(answer("--dry-run"), 2, {"strata plan plans a run and trains nothing"});
  expect_sentence(answer("--steps=3"), 2, {"--set sets keys of the run file: it is train.steps"});
  expect_sentence(answer("--learning-rate"), 2, {"--set sets keys of the run file: it is optimizer.lr here"});
  expect_sentence(answer("--path=x"), 2, {"it is model.path or data.path or "});
}

TEST_F(CommandWords, ThatAreMissingAreAskedFor) {
  expect_sentence(strata({}), 2, {"a command is missing", "examples/quickstart.yaml", "strata --help"});
  EXPECT_THAT(strata({"--help"}).out, HasSubstr("Begin with "));
  EXPECT_THAT(strata({"train", "--help"}).out, Not(HasSubstr("Begin with ")));
}

}  // namespace
}  // namespace strata::test
