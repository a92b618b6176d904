// The program's commands and options as plain values, read from what CLI11 parses by. Manual pages and
// completions are made of them, so that neither has a list of its own.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace strata {

struct OptionDescription {
  std::vector<std::string> names = {};  ///< "-V", "--version"; of an argument its name alone
  std::string value = {};  ///< what is behind it: "TEXT", "INT", "auto|fp32"; empty: it is a flag
  std::vector<std::string> choices = {};  ///< the values that it takes; empty: others than a few words
  std::string description;
  std::string default_value;  ///< empty: none
  bool required = false, repeats = false;
};

struct CommandDescription {
  std::string name;
  std::string description;
  std::vector<OptionDescription> options = {};
  std::vector<OptionDescription> arguments = {};  ///< without names of options, in their order
  std::vector<CommandDescription> commands = {};  ///< but for hidden ones
};

CommandDescription describe_commands(const CLI::App& app);

}  // namespace strata
