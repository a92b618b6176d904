// The command line's words before and after CLI11 reads them: other names of commands, and what a misspelt
// word was probably meant to be.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace strata {

/// What a newcomer runs first: "strata train /usr/share/strata/examples/quickstart.yaml".
std::string first_command();

/// The arguments of main() as CLI11 reads them: "help train" is "train --help", and "version" is "--version".
/// Throws ConfigError if there is no word at all, or if the first is neither an option nor a command of
/// `app`.
std::vector<const char*> command_words(const CLI::App& app, int argc, char** argv);

/// For an `app` that refused its arguments: "; did you mean '--json'?" if an option is near to one that the
/// command does not have, else empty.
std::string suggest_option(const CLI::App& app);

}  // namespace strata
