// Commands as a user pastes them: with this program under the name that it was called by. Pure functions; any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// `word` as a shell reads it back: in quotes if it has anything but letters, digits and harmless marks.
std::string shell_word(std::string_view word);

/// The program as the user typed it, and `words`, as a shell reads them: "build/strata plan 'lr=1e-3.yaml'",
/// or "strata plan ..." if a shell found the program on its PATH.
std::string command_line(const std::vector<std::string>& words);

}  // namespace strata
