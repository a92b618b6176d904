#include "engine/tools/cli/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"
#include "engine/tools/cli/build_facts.h"
#include "engine/tools/cli/completion.h"

namespace strata {
namespace {

constexpr std::string_view kExitStatus = R"(.SH EXIT STATUS
.TP
0
The command is done.
.TP
1
The run failed or was stopped. What was saved stays.
.TP
2
The run file, the command line, or a file that these name is wrong. The message says where.
)";

/// A tree may lie anywhere, so the page can't name the whole path.
constexpr std::string_view kExamples = R"(.SH EXAMPLES
.I PREFIX
is where Strata is installed: /usr for a package.
.TP
.B strata train \fIPREFIX\fB/share/strata/examples/quickstart.yaml
Trains a small model on novels on the CPU, in minutes.
.TP
.B strata plan RUN.yaml \-\-on 4090\-desktop
Says whether a run fits that machine, and how fast it is at most.
.TP
.B strata chat out/NAME
Talks to the model of the newest checkpoint there.
)";

constexpr std::string_view kPlaces = R"(.SH ENVIRONMENT
.TP
.B STRATA_VECTOR_TARGET
Caps the instruction sets: baseline, sse4, avx2, avx512 or avx512_bf16.
.SH FILES
.TP
.I PREFIX/share/strata/examples
Run files, profiles of machines, and the novels that the quickstart trains on.
.TP
.I PREFIX/share/doc/strata/docs
Tutorials, guides and reference, as Markdown.
.TP
.I \(ti/.cache/strata
Token ids of texts that were read before. It may be deleted at any time.
)";

/// Text as roff reads it.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char character : text) {
    switch (character) {
      case '\\':
        escaped += "\\e";
        break;
      case '-':
        escaped += "\\-";
        break;
      case '\'':
        escaped += "\\(aq";
        break;
      case '`':
        escaped += "\\(ga";
        break;
      case '^':
        escaped += "\\(ha";
        break;
      case '~':
        escaped += "\\(ti";
        break;
      default:
        escaped += character;
    }
  }
  return escaped.starts_with('.') ? "\\&" + escaped : escaped;
}

/// "write the plan" as "Write the plan."
std::string sentence(std::string text) {
  if (text.empty()) return text;
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text.ends_with('.') ? text : text + ".";
}

/// "Strata trains models." as "trains models".
std::string phrase(std::string text) {
  constexpr std::string_view kSubject = "Strata ";
  if (text.starts_with(kSubject)) text.erase(0, kSubject.size());
  return text.substr(0, text.find_last_not_of('.') + 1);
}

std::string page_name(const std::string& program, const CommandDescription& command) {
  return command.name == program ? program : program + "-" + command.name;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return text;
}

std::string option_entry(const OptionDescription& option) {
  std::string text = ".TP\n";
  for (const std::string& name : option.names)
    text += fmt::format("{}\\fB{}\\fR", name == option.names.front() ? "" : ", ", roff(name));
  const bool is_argument = !option.names.front().starts_with('-');
  if (!option.value.empty() && !is_argument) text += fmt::format(" \\fI{}\\fR", roff(option.value));
  text += "\n" + roff(sentence(option.description));
  if (!option.default_value.empty()) text += " Default: " + roff(option.default_value) + ".";
  return text + "\n";
}

std::string option_section(std::string_view title, const std::vector<OptionDescription>& options) {
  if (options.empty()) return "";
  std::string text = fmt::format(".SH {}\n", title);
  for (const OptionDescription& option : options) text += option_entry(option);
  return text;
}

std::string synopsis(const std::string& program, const CommandDescription& command) {
  std::string text = fmt::format(".SH SYNOPSIS\n\\fB{}", roff(program));
  if (command.name != program) text += " " + roff(command.name);
  text += "\\fR [\\fIoption\\fR ...]";
  if (!command.commands.empty()) text += " \\fIcommand\\fR [\\fIargument\\fR ...]";
  for (const OptionDescription& argument : command.arguments) {
    const std::string name =
        fmt::format("\\fI{}\\fR{}", roff(argument.names.front()), argument.repeats ? " ..." : "");
    text += argument.required ? " " + name : fmt::format(" [{}]", name);
  }
  return text + "\n";
}

std::string command_section(const std::string& program, const CommandDescription& command) {
  if (command.commands.empty()) return "";
  std::string text = ".SH COMMANDS\n";
  for (const CommandDescription& inner : command.commands)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(inner.name), roff(sentence(inner.description)));
  return text + fmt::format(".PP\nEach has a page: \\fBman {}\\-train\\fR.\n", roff(program));
}

std::string see_also(const CommandDescription& program, const CommandDescription& command) {
  std::string text = ".SH SEE ALSO\n";
  std::string separator;
  const auto add = [&](const CommandDescription& other) {
    if (other.name == command.name) return;
    text += fmt::format("{}\\fB{}\\fR(1)", separator, roff(page_name(program.name, other)));
    separator = ",\n";
  };
  add(program);
  for (const CommandDescription& other : program.commands) add(other);
  return text + "\n";
}

}  // namespace

std::string manual_page(const CommandDescription& program, const CommandDescription& command) {
  const BuildFacts& facts = build_facts();
  const std::string name = page_name(program.name, command);
  const bool takes_run_file = std::ranges::any_of(command.arguments, [](const OptionDescription& argument) {
    return argument.names.front() == "run_file";
  });
  std::string text =
      fmt::format(".TH {} 1 \"{}\" \"strata {}\" \"Strata\"\n", roff(upper(name)), facts.date, facts.version);
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(phrase(command.description)));
  text += synopsis(program.name, command);
  if (takes_run_file)
    text += ".SH DESCRIPTION\n\\fBstrata train \\-\\-help\\-config\\fR prints every key of the run file.\n";
  text += command_section(program.name, command);
  text += option_section("ARGUMENTS", command.arguments) + option_section("OPTIONS", command.options);
  text += kExitStatus;
  if (command.name == program.name) text.append(kExamples).append(kPlaces);
  return text + see_also(program, command);
}

int write_manual(const CommandDescription& program, const std::string& folder) {
  FileSystem& files = FileSystem::real();
  const auto write = [&](const std::string& subfolder, const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(folder) / subfolder;
    files.create_folders(path);
    replace_file(files, path / name, text);
  };
  write("man1", program.name + ".1", manual_page(program, program));
  for (const CommandDescription& command : program.commands)
    write("man1", page_name(program.name, command) + ".1", manual_page(program, command));
  write("bash", program.name, bash_completion(program));
  write("zsh", "_" + program.name, zsh_completion(program));
  write("fish", program.name + ".fish", fish_completion(program));
  return 0;
}

}  // namespace strata
