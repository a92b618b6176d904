// What to do about a path of a user's that is not there, or that names no folder of a model, behind the
// sentence that says so. They ask the file system, and change nothing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace strata {

/// "; looked for in /home/me, the current directory", and what a run file can name instead. Empty for an
/// absolute path. `key`: of the run file, which gives the path; empty: an argument gives it.
std::string advice_on_missing(const std::filesystem::path& path, std::string_view key);

/// Advice for the folder of a model, of adapters or of a tokenizer. For a name or an address of the Hugging
/// Face hub it has the command that downloads the model. For a file of other weights it says what to do with
/// the file. For all else it is advice_on_missing().
std::string advice_on_missing_model(const std::filesystem::path& path, std::string_view key);

}  // namespace strata
