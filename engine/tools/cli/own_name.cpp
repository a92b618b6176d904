#include "engine/tools/cli/own_name.h"

#include <cerrno>

namespace strata {
namespace {

constexpr std::string_view kHarmless =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+:,./_-";

}  // namespace

std::string shell_word(std::string_view word) {
  if (!word.empty() && word.find_first_not_of(kHarmless) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string command_line(const std::vector<std::string>& words) {
  const std::string_view called = program_invocation_name;  // the argument 0 of main()
  std::string line = shell_word(called.empty() ? "strata" : called);
  for (const std::string& word : words) line += " " + shell_word(word);
  return line;
}

}  // namespace strata
