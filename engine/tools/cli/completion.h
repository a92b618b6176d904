// Scripts by which shells complete the program's commands, options, their values, and keys of run files after
// --set.
#pragma once

#include <string>

#include "engine/tools/cli/command_tree.h"

namespace strata {

std::string bash_completion(const CommandDescription& program);
std::string zsh_completion(const CommandDescription& program);
std::string fish_completion(const CommandDescription& program);

}  // namespace strata
