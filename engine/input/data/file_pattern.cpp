#include "engine/input/data/file_pattern.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/error.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) {
  return path.filename().native().starts_with('.');
}

bool has_wildcard(const std::string& component) {
  return component.find_first_of("*?[") != std::string::npos;
}

/// The entries of a folder; none if it is no folder.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  const fs::path listed = folder.empty() ? fs::path(".") : folder;
  fs::directory_iterator iterator(listed, error);
  for (; !error && iterator != fs::directory_iterator(); iterator.increment(error))
    entries.push_back(*iterator);
  const bool no_folder = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !no_folder)
    throw ConfigError(fmt::format("cannot list {}: {}", listed.native(), error.message()));
  return entries;
}

/// Appends the files under `base` that the components match.
void match(const fs::path& base, std::span<const std::string> components, std::vector<std::string>& files) {
  std::error_code error;
  if (components.empty()) {
    if (fs::is_regular_file(base, error)) files.push_back(base.native());
    return;
  }
  const std::string& component = components[0];
  const auto rest = components.subspan(1);
  if (component == "**") {
    match(base, rest, files);
    for (const fs::directory_entry& entry : entries_of(base)) {
      const bool folder = entry.is_directory(error) && !entry.is_symlink(error);
      if (folder && !is_hidden(entry.path())) match(base / entry.path().filename(), components, files);
    }
  } else if (has_wildcard(component)) {
    for (const fs::directory_entry& entry : entries_of(base)) {
      const fs::path name = entry.path().filename();
      if (::fnmatch(component.c_str(), name.c_str(), FNM_PERIOD) == 0) match(base / name, rest, files);
    }
  } else if (fs::exists(base / component, error)) {
    match(base / component, rest, files);
  }
}

}  // namespace

std::vector<std::string> expand_pattern(const std::string& pattern) {
  std::error_code error;
  if (fs::is_regular_file(pattern, error)) return {pattern};
  const fs::path path(pattern);
  std::vector<std::string> components;
  for (const fs::path& component : path.relative_path()) {
    // Two in a row mean what one means, and would be tried in every combination.
    const bool again = component == "**" && !components.empty() && components.back() == "**";
    if (!again) components.push_back(component.native());
  }
  if (!components.empty() && components.back() == "**") components.emplace_back("*");
  std::vector<std::string> files;
  match(path.root_path(), components, files);
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace strata
