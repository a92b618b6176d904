#include "engine/tools/cli/command_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/shipped_file.h"
#include "engine/config/nearest.h"
#include "engine/tools/cli/own_name.h"

namespace strata {
namespace {

/// Throws ConfigError if `app` has no command of that name.
void check_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(std::function<bool(const CLI::App*)>())) {
    if (command->get_name() == word) return;
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  const std::string nearest = suggest_name(word, names);
  throw ConfigError(
      fmt::format("'{}' is no command: {}", word,
                  nearest.empty() ? fmt::format("the commands are {}", fmt::join(names, ", ")) : nearest));
}

/// Options that people know from other tools' training commands.
struct ForeignOption {
  std::string_view name, answer;
};
constexpr auto kForeignOptions = std::to_array<ForeignOption>({
    {"--resume", "a run resumes from its newest checkpoint by itself"},
    {"--resume-from-checkpoint", "a run resumes from its newest checkpoint by itself"},
    {"--dry-run", "strata plan plans a run and trains nothing"},
    {"--config", "the run file stands alone: strata train RUN.yaml"},
});

/// What was probably meant by an option that `command` does not have; empty if nothing is near.
std::string answer_to(const std::string& option, const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* own : command.get_options()) {
    for (const std::string& name : own->get_lnames()) names.push_back("--" + name);
  }
  if (std::ranges::count(names, "--set") > 0) {
    for (const ForeignOption& foreign : kForeignOptions)
      if (option == foreign.name) return std::string(foreign.answer);
    const std::string key = answer_to_key_name(option.substr(2));
    if (!key.empty()) return "--set sets keys of the run file: " + key;
  }
  return suggest_name(option, names);
}

}  // namespace

std::string first_command() {
  return command_line({"train", shipped_file("examples/quickstart.yaml")});
}

std::vector<const char*> command_words(const CLI::App& app, int argc, char** argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (words.size() < 2)
    throw ConfigError(fmt::format("a command is missing, as in {}; {} lists the commands", first_command(),
                                  command_line({"--help"})));
  if (words.size() == 2 && words[1] == std::string_view("version")) words[1] = "--version";
  if (words[1] == std::string_view("help") && (words.size() == 2 || *words[2] != '-')) {
    words.erase(words.begin() + 1);
    words.push_back("--help");
  }
  if (*words[1] != '-') check_command(app, words[1]);
  return words;
}

std::string suggest_option(const CLI::App& app) {
  std::vector<const CLI::App*> commands = {&app};
  for (const CLI::App* command : app.get_subcommands()) commands.push_back(command);
  for (const CLI::App* command : commands) {
    for (const std::string& word : command->remaining()) {
      if (!word.starts_with("--")) continue;
      const std::string answer = answer_to(word.substr(0, word.find('=')), *command);
      if (!answer.empty()) return "; " + answer;
    }
  }
  return "";
}

}  // namespace strata
