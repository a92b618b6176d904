// Internal to config: paths as a person writes them in a run file, with the names that stand for a part of a
// path. A RunConfig has whole paths only: what it dumps means the same for another user, in another
// environment and beside another run file.
#pragma once

#include <cstdint>
#include <string>

namespace strata {

/// A name stands for any file or folder. In a pattern, *, ? and [ in it match only themselves.
enum class PathForm : std::uint8_t { path, pattern };

/// The path that `text` means: ${NAME} is the variable of the environment, ${RUN_FILE_DIR} is
/// `run_file_folder`, $$ is one $, and ~/ at the start is the home folder. Throws value::WrongValue for a
/// variable that is unset or empty, and for $NAME without braces.
std::string read_path(const std::string& text, const std::string& run_file_folder,
                      PathForm form = PathForm::path);

/// The text that read_path() turns into `path`.
std::string write_path(const std::string& path);

/// The absolute folder that the run file is in, as its name says: links are not followed.
std::string folder_of_run_file(const std::string& run_file);

}  // namespace strata
