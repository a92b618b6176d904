// The files that an installation has beside the program: manual pages, and completions of three shells. They
// are made of the program's own description of its commands.
#pragma once

#include <string>

#include "engine/tools/cli/command_tree.h"

namespace strata {

/// Writes man1/strata.1 and a page for each command, and completions for bash, zsh and fish, below `folder`.
/// Replaces what is there. The exit status: 0. Throws IoError.
int write_manual(const CommandDescription& program, const std::string& folder);

/// One page in man(7)'s language: of `command`, or of the whole program if both are the same.
std::string manual_page(const CommandDescription& program, const CommandDescription& command);

}  // namespace strata
