// A folder with a corpus and a run file of its own, in which the strata program runs as a user runs it.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/cli/process.h"

namespace strata::test {

using Arguments = std::vector<std::string>;

/// The arguments that begin with "--set" are spelled out: {"train.steps=1"} gives --set train.steps=1.
Arguments train(const std::string& run_file, const Arguments& overrides = {});

class Workspace : public ::testing::Test {
 protected:
  Workspace();

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& content) const;
  /// Six steps of a three-layer Llama on corpus.txt. run.yaml is that without checkpoints.
  static std::string run_file();

  Process start(const Arguments& arguments, Process::Options options = {}) const;
  Outcome strata(const Arguments& arguments, Process::Options options = {}) const;
  /// What a shell makes of a line that a user pastes into it.
  Outcome pasted(const std::string& line) const;
  /// The same command on several ranks, which mpirun starts.
  Process start_ranks(int ranks, const Arguments& arguments) const;
  /// Each has arguments of its own, and a STRATA_VECTOR_TARGET if `targets` has a name for it.
  Outcome strata_on_ranks(const std::vector<Arguments>& ranks, const Arguments& targets = {}) const;
  Outcome strata_on_ranks(int ranks, const Arguments& arguments) const {
    return start_ranks(ranks, arguments).wait();
  }
  /// The JSON report of a command that must succeed; `arguments` without --json.
  nlohmann::json report(Arguments arguments) const;
  std::string state_hash(const Arguments& arguments) const { return report(arguments).at("state_hash"); }
  /// Saves a checkpoint of the run file's model into out/ and exports it to the folder `name`.
  void make_model_folder(const std::string& name) const;
  /// The same with a tokenizer, whose chat template writes "user: Hi!\nbot:".
  void make_chat_model(const std::string& name) const;

 private:
  /// mpirun with these words for processes.
  Process launch(const Arguments& commands) const;

  TemporaryFolder folder_;
};

/// The program ended with `status` and, as its last words, one line: "strata: " and a sentence with all of
/// `parts`.
void expect_sentence(const Outcome& outcome, int status, std::initializer_list<std::string> parts);

/// The rest of the first line of `text` that has `words`, from behind them on; fails the test if none has.
std::string behind(const std::string& words, const std::string& text);

std::vector<std::string> keys_of(const nlohmann::json& object);

/// The number in "(123 bytes)" of the last line; fails the test if there is none.
std::string bytes_in_sentence(const Outcome& outcome);

}  // namespace strata::test
