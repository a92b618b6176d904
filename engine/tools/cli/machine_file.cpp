#include "engine/tools/cli/machine_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/shipped_file.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

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
  const fs::path folder = shipped_file("examples/machines");
  const std::vector<std::string> names = names_in(folder);
  if (std::ranges::count(names, name) > 0) return (folder / (name + ".yaml")).string();
  throw ConfigError(fmt::format(
      "{}: there is no file {}{}; strata doctor --profile FILE writes one of the machine it runs on", option,
      name,
      names.empty() ? "" : fmt::format(", and the program's own machines are {}", fmt::join(names, ", "))));
}

}  // namespace strata
