#include "engine/config/path_text.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "engine/config/value.h"

namespace strata {
namespace {

using value::WrongValue;

constexpr std::string_view kRunFileFolder = "RUN_FILE_DIR";

bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool continues_name(char c) {
  return begins_name(c) || (c >= '0' && c <= '9');
}

/// The name of a variable that `text` begins with; empty if there is none.
std::string_view leading_name(std::string_view text) {
  if (text.empty() || !begins_name(text.front())) return {};
  std::size_t end = 1;
  while (end < text.size() && continues_name(text[end])) ++end;
  return text.substr(0, end);
}

std::string variable(const std::string& name) {
  const char* found = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return found == nullptr ? "" : found;
}

/// `path` as the pattern that matches nothing else.
std::string as_pattern(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    const bool is_wildcard = c == '*' || c == '?' || c == '[';
    pattern += is_wildcard ? fmt::format("[{}]", c) : std::string(1, c);
  }
  return pattern;
}

class PathReader {
 public:
  PathReader(std::string_view text, const std::string& run_file_folder, PathForm form)
      : rest_(text), run_file_folder_(run_file_folder), form_(form) {}

  std::string read() {
    std::string path = read_home();
    while (!rest_.empty()) {
      const std::size_t dollar = std::min(rest_.find('$'), rest_.size());
      path += rest_.substr(0, dollar);
      rest_.remove_prefix(dollar);
      if (!rest_.empty()) path += read_dollar();
    }
    return path;
  }

 private:
  std::string meant(const std::string& path) const {
    return form_ == PathForm::pattern ? as_pattern(path) : path;
  }

  std::string read_home() {
    if (rest_ != "~" && !rest_.starts_with("~/")) return "";
    const std::string home = variable("HOME");
    if (!home.starts_with('/')) {
      throw WrongValue(fmt::format("begins with ~, and HOME is {}: write the whole path",
                                   home.empty() ? "not set" : "no absolute path"));
    }
    rest_.remove_prefix(1);
    return meant(home);
  }

  /// What stands for the $ that `rest_` begins with and the words that belong to it.
  std::string read_dollar() {
    rest_.remove_prefix(1);
    if (rest_.starts_with('$')) {
      rest_.remove_prefix(1);
      return "$";
    }
    if (rest_.starts_with('{')) return meant(read_braces());
    if (const std::string_view name = leading_name(rest_); !name.empty())
      throw WrongValue(
          fmt::format("write ${{{0}}} for the variable {0}, or $${0} for a name with a $", name));
    return "$";
  }

  std::string read_braces() {
    const std::string name(leading_name(rest_.substr(1)));
    const std::size_t end = name.size() + 1;
    if (name.empty() || end >= rest_.size() || rest_[end] != '}')
      throw WrongValue(
          "after ${ it needs the name of a variable and }, as in ${HOME}; write $${ for the text ${");
    rest_.remove_prefix(end + 1);
    if (name == kRunFileFolder) return run_file_folder_;
    std::string found = variable(name);
    if (found.empty()) {
      throw WrongValue(fmt::format(
          "the variable {} of the environment is not set or empty: export it, or write the path", name));
    }
    return found;
  }

  std::string_view rest_;
  const std::string& run_file_folder_;
  PathForm form_;
};

}  // namespace

std::string read_path(const std::string& text, const std::string& run_file_folder, PathForm form) {
  return PathReader(text, run_file_folder, form).read();
}

std::string write_path(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '$' ? "$$" : std::string(1, c);
  return text;
}

std::string folder_of_run_file(const std::string& run_file) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(run_file, error);
  return (error ? std::filesystem::path(run_file) : path).lexically_normal().parent_path().string();
}

}  // namespace strata
