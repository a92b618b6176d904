#include "engine/cli/command_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/cli/own_name.h"
#include "engine/config/nearest.h"

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

}  // namespace

std::vector<const char*> command_words(const CLI::App& app, int argc, char** argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (words.size() < 2)
    throw ConfigError(fmt::format("a command is missing, as in {}; {} lists the commands",
                                  command_line({"train", "RUN.yaml"}), command_line({"--help"})));
  if (words.size() == 2 && words[1] == std::string_view("version")) words[1] = "--version";
  if (words[1] == std::string_view("help") && (words.size() == 2 || *words[2] != '-')) {
    words.erase(words.begin() + 1);
    words.push_back("--help");
  }
  if (*words[1] != '-') check_command(app, words[1]);
  return words;
}

std::string suggest_option(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    std::vector<std::string> names;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    for (const std::string& word : command->remaining()) {
      const std::string nearest =
          word.starts_with("--") ? suggest_name(word.substr(0, word.find('=')), names) : "";
      if (!nearest.empty()) return "; " + nearest;
    }
  }
  return "";
}

}  // namespace strata
