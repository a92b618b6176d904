// Patterns of file names as a shell expands them, with `**` for any depth of folders.
#pragma once

#include <string>
#include <vector>

namespace strata {

/// The regular files that `pattern` names, sorted bytewise by path, each once. Within a component *, ? and
/// [a-z] match as in a shell (not a leading dot); a component `**` stands for any number of folders, not
/// following links; as the last one it means `**/*`. A file whose name is the pattern itself is taken
/// literally. Empty if nothing matches. Throws ConfigError for a folder that cannot be listed.
std::vector<std::string> expand_pattern(const std::string& pattern);

}  // namespace strata
