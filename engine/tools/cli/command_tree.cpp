#include "engine/tools/cli/command_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace strata {
namespace {

/// "TEXT:{auto,fp32}" has the words between the braces.
std::vector<std::string> choices_in(const std::string& type) {
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

OptionDescription describe(const CLI::Option& option) {
  OptionDescription described{.description = option.get_description(),
                              .default_value = option.get_default_str(),
                              .required = option.get_required(),
                              .repeats = option.get_items_expected_max() > 1};
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  if (described.names.empty()) described.names.push_back(option.get_name(true));
  if (option.get_items_expected_max() == 0) return described;  // a flag
  const std::string type = option.get_type_name();
  described.choices = choices_in(type);
  described.value = described.choices.empty() ? type.substr(0, type.find_first_of(": "))
                                              : fmt::format("{}", fmt::join(described.choices, "|"));
  return described;
}

}  // namespace

CommandDescription describe_commands(const CLI::App& app) {
  // A program that is being parsed has the path by which it was called as its name.
  CommandDescription described{.name = app.get_parent() == nullptr ? "strata" : app.get_name(),
                               .description = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    (option->get_positional() ? described.arguments : described.options).push_back(describe(*option));
  }
  for (const CLI::App* command : app.get_subcommands(std::function<bool(const CLI::App*)>())) {
    if (!command->get_group().empty()) described.commands.push_back(describe_commands(*command));
  }
  return described;
}

}  // namespace strata
