#include "engine/cli/machine_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// Empty if there is none: beside an installed program, or in the source tree above a built one.
fs::path shipped_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  std::vector<fs::path> folders = {program.parent_path().parent_path() / "share/strata/examples/machines"};
  for (fs::path above = program.parent_path(); above.has_relative_path(); above = above.parent_path())
    folders.push_back(above / "examples/machines");
  const auto found = std::ranges::find_if(folders, [](const fs::path& folder) { return is_there(folder); });
  return found == folders.end() ? fs::path() : *found;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string machine_file(std::string_view option, const std::string& name) {
  std::error_code error;
  if (is_there(name) && !fs::is_directory(name, error)) return name;
  const fs::path folder = shipped_folder();
  const std::vector<std::string> names = names_in(folder);
  if (std::ranges::count(names, name) > 0) return (folder / (name + ".yaml")).string();
  throw ConfigError(fmt::format(
      "{}: there is no file {}{}; strata doctor --profile FILE writes one of the machine it runs on", option,
      name,
      names.empty() ? "" : fmt::format(", and the program's own machines are {}", fmt::join(names, ", "))));
}

}  // namespace strata
