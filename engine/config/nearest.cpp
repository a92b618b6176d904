#include "engine/config/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/edit_distance.h"
#include "engine/config/describe.h"
#include "engine/config/foreign_answers.h"
#include "engine/config/keys.h"
#include "engine/config/run_keys.h"

namespace strata {
namespace {

std::vector<std::string> all_paths() {
  std::vector<std::string> paths;
  const auto add = [&paths](const auto& table) {
    for (const auto& element : table) paths.push_back(element.path);
  };
  add(config_sections());
  add(config_keys());
  add(run_sections());
  add(run_keys());
  return paths;
}

std::string parent_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

/// Small is near. A right name in the wrong section is as near as one wrong letter.
std::size_t distance(const std::string& unknown, const std::string& path) {
  const std::size_t whole = edit_distance(unknown, path);
  return leaf_of(unknown) == leaf_of(path) ? std::min<std::size_t>(whole, 1) : whole;
}

/// How far from a name a word may be that was meant to be it.
std::size_t tolerated_distance(const std::string& name) {
  return std::max<std::size_t>(2, name.size() / 3);
}

}  // namespace

std::string answer_to_key_name(std::string name) {
  std::ranges::replace(name, '-', '_');
  std::vector<std::string> found;
  for (const std::string& path : key_paths())
    if (path == name || leaf_of(path) == name) found.push_back(path);
  return found.empty() ? answer_to_foreign_key(name) : fmt::format("it is {}", fmt::join(found, " or "));
}

std::string suggest_name(const std::string& unknown, const std::vector<std::string>& names) {
  const auto nearest = std::ranges::min_element(
      names, {}, [&](const std::string& name) { return edit_distance(unknown, name); });
  if (nearest == names.end() || edit_distance(unknown, *nearest) > tolerated_distance(unknown)) return "";
  return fmt::format("did you mean '{}'?", *nearest);
}

std::string keys_in(const std::string& section) {
  std::vector<std::string> names;
  for (const std::string& path : all_paths()) {
    if (parent_of(path) == section) names.push_back(leaf_of(path));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string suggest_key(const std::string& unknown, const std::vector<std::string>& beside) {
  std::vector<std::string> paths = all_paths();
  paths.insert(paths.end(), beside.begin(), beside.end());
  const bool is_misspelt =
      std::ranges::any_of(paths, [&](const std::string& path) { return edit_distance(unknown, path) <= 1; });
  if (std::string answer = answer_to_foreign_key(unknown); !is_misspelt && !answer.empty()) return answer;
  const auto nearest =
      std::ranges::min_element(paths, {}, [&](const std::string& path) { return distance(unknown, path); });
  if (distance(unknown, *nearest) <= tolerated_distance(leaf_of(unknown)))
    return fmt::format("did you mean '{}'?", *nearest);
  const std::string parent = parent_of(unknown);
  const std::string names = keys_in(parent);
  if (names.empty()) return fmt::format("the sections are {}", keys_in(""));
  return parent.empty() ? fmt::format("the sections are {}", names)
                        : fmt::format("the keys of {} are {}", parent, names);
}

}  // namespace strata
