#include "engine/tools/cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/describe.h"

namespace strata {
namespace {

std::vector<std::string> names_of(const std::vector<CommandDescription>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CommandDescription& command : commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> names_of(const std::vector<OptionDescription>& options) {
  std::vector<std::string> names;
  for (const OptionDescription& option : options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

/// "train.steps=" and so on, which stand after --set.
std::vector<std::string> assignments() {
  std::vector<std::string> words;
  for (const std::string& path : key_paths()) words.push_back(path + "=");
  return words;
}

bool sets_keys(const OptionDescription& option) {
  return std::ranges::find(option.names, "--set") != option.names.end();
}

bool takes_run_file(const CommandDescription& command) {
  return std::ranges::any_of(command.arguments, [](const OptionDescription& argument) {
    return argument.names.front() == "run_file";
  });
}

/// In single quotes, for each of the three shells.
std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char character : text) result += character == '\'' ? "'\\''" : std::string(1, character);
  return result + "'";
}

/// fish takes backslashes inside of quotes.
std::string in_quotes_for_fish(std::string_view text) {
  std::string result = "'";
  for (const char character : text) {
    if (character == '\'' || character == '\\') result += '\\';
    result += character;
  }
  return result + "'";
}

/// A description inside of brackets, or before a colon, of zsh's _arguments.
std::string escaped_for_zsh(std::string_view text) {
  std::string result;
  for (const char character : text) {
    if (std::string_view("[]:\\").find(character) != std::string_view::npos) result += '\\';
    result += character;
  }
  return result;
}

std::string zsh_option(const OptionDescription& option) {
  std::string action;
  if (sets_keys(option)) {
    action = ":key:_strata_keys";
  } else if (!option.choices.empty()) {
    action = fmt::format(":value:({})", fmt::join(option.choices, " "));
  } else if (!option.value.empty()) {
    action = ":value:_files";
  }
  std::string text;
  for (const std::string& name : option.names) {
    text += "        " +
            in_quotes(fmt::format("{}{}[{}]{}", option.repeats || sets_keys(option) ? "*" : "", name,
                                  escaped_for_zsh(option.description), action)) +
            " \\\n";
  }
  return text;
}

std::string zsh_command(const CommandDescription& program, const CommandDescription& command) {
  std::string text = fmt::format("      {})\n      _arguments \\\n", command.name);
  for (const OptionDescription& option : command.options) text += zsh_option(option);
  if (command.name == "help") {
    text += fmt::format("        '*:command:({})'\n", fmt::join(names_of(program.commands), " "));
  } else {
    text += takes_run_file(command) ? "        '*:run file:_files -g \"*.(yaml|yml)\"'\n"
                                    : "        '*:file:_files'\n";
  }
  return text + "      ;;\n";
}

std::string fish_option(const std::string& condition, const OptionDescription& option) {
  std::string text = fmt::format("complete -c strata -n {}", in_quotes_for_fish(condition));
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (sets_keys(option)) {
    text += fmt::format(" -x -a {}", in_quotes_for_fish(fmt::format("{}", fmt::join(assignments(), " "))));
  } else if (!option.choices.empty()) {
    text += fmt::format(" -x -a {}", in_quotes_for_fish(fmt::format("{}", fmt::join(option.choices, " "))));
  } else if (!option.value.empty()) {
    text += " -r";
  }
  return text + fmt::format(" -d {}\n", in_quotes_for_fish(option.description));
}

}  // namespace

std::string bash_completion(const CommandDescription& program) {
  std::string options;  // of each command
  std::string values;   // of each option that takes one of a few
  for (const CommandDescription& command : program.commands) {
    options += fmt::format("    {}) words={} ;;\n", command.name,
                           in_quotes(fmt::format("{}", fmt::join(names_of(command.options), " "))));
    for (const OptionDescription& option : command.options) {
      if (option.choices.empty()) continue;
      values += fmt::format("    '{} {}') words={} ;;\n", command.name, option.names.back(),
                            in_quotes(fmt::format("{}", fmt::join(option.choices, " "))));
    }
  }
  const std::string commands = fmt::format("{}", fmt::join(names_of(program.commands), " "));
  return fmt::format(
      R"(# bash completion for strata, written by the program itself
_strata() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command= word words=
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    [ "${{word#-}}" = "$word" ] || continue
    command=$word
    break
  done
  case "$command $previous" in
    *' --set')
      compopt -o nospace
      words={assignments}
      ;;
    ' '*) words={top} ;;
    'help '*) words={commands} ;;
{values}  esac
  if [ -z "$words" ] && [ "${{current#-}}" != "$current" ]; then
    case $command in
{options}    esac
  fi
  [ -z "$words" ] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o bashdefault -o default -F _strata strata
)",
      fmt::arg("assignments", in_quotes(fmt::format("{}", fmt::join(assignments(), " ")))),
      fmt::arg("top", in_quotes(fmt::format("{} {}", commands, fmt::join(names_of(program.options), " ")))),
      fmt::arg("commands", in_quotes(commands)), fmt::arg("values", values), fmt::arg("options", options));
}

std::string zsh_completion(const CommandDescription& program) {
  std::string commands;
  std::string cases;
  std::string options;
  for (const CommandDescription& command : program.commands) {
    commands += "    " + in_quotes(command.name + ":" + escaped_for_zsh(command.description)) + "\n";
    cases += zsh_command(program, command);
  }
  for (const OptionDescription& option : program.options) options += zsh_option(option);
  return fmt::format(R"(#compdef strata
# zsh completion for strata, written by the program itself

_strata_keys() {{
  local -a keys=({keys})
  compadd -S '' -- $keys
}}

_strata() {{
  local state
  local -a commands=(
{commands}  )
  _arguments -C \
{options}        '1:command:->command' \
        '*::argument:->argument'
  case $state in
    command) _describe command commands ;;
    argument)
      case $words[1] in
{cases}      esac
      ;;
  esac
}}

_strata "$@"
)",
                     fmt::arg("keys", fmt::format("{}", fmt::join(assignments(), " "))),
                     fmt::arg("commands", commands), fmt::arg("options", options), fmt::arg("cases", cases));
}

std::string fish_completion(const CommandDescription& program) {
  std::string text = "# fish completion for strata, written by the program itself\n";
  for (const OptionDescription& option : program.options)
    text += fish_option("__fish_use_subcommand", option);
  for (const CommandDescription& command : program.commands) {
    text += fmt::format("complete -c strata -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                        in_quotes_for_fish(command.description));
  }
  for (const CommandDescription& command : program.commands) {
    for (const OptionDescription& option : command.options)
      text += fish_option("__fish_seen_subcommand_from " + command.name, option);
  }
  return text + fmt::format("complete -c strata -n '__fish_seen_subcommand_from help' -f -a '{}'\n",
                            fmt::join(names_of(program.commands), " "));
}

}  // namespace strata
