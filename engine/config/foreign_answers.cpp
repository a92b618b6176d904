#include "engine/config/foreign_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/shipped_file.h"
#include "engine/config/foreign_keys.h"
#include "engine/config/keys.h"

namespace strata {
namespace {

/// As the tables have it: Tensor-Parallel-Size is tensor_parallel_size.
std::string in_table_form(std::string_view text) {
  std::string form(text);
  for (char& c : form) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return form;
}

/// Whether a word of `list` fits.
template <typename Fits>
bool any_word(std::string_view list, const Fits& fits) {
  while (!list.empty()) {
    const std::size_t space = std::min(list.find(' '), list.size());
    if (fits(list.substr(0, space))) return true;
    list.remove_prefix(std::min(space + 1, list.size()));
  }
  return false;
}

bool has_word(std::string_view list, std::string_view word) {
  return any_word(list, [word](std::string_view each) { return each == word; });
}

/// The entry for the longest end of the path that is a name; null if none is.
const ForeignKey* foreign_key_of(const std::string& path) {
  const std::string form = in_table_form(path);
  std::string_view end = form;
  while (true) {
    for (const ForeignKey& key : foreign_keys())
      if (has_word(key.names, end)) return &key;
    const std::size_t dot = end.find('.');
    if (dot == std::string_view::npos) return nullptr;
    end.remove_prefix(dot + 1);
  }
}

std::optional<PlacedKey> foreign_key_within(const std::string& path, const YAML::Node& node) {
  if (node.IsMap()) {
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) continue;
      const std::string inner = path + "." + entry.first.Scalar();
      if (auto found = foreign_key_within(inner, entry.second)) return found;
      if (foreign_key_of(inner) != nullptr) return PlacedKey{inner, entry.first.Mark()};
    }
  }
  return std::nullopt;
}

/// Our key for what other tools write in a section's place.
constexpr std::array<std::string_view, 8> kKeysOfSections = {
    "model.path",  "data.path",        "adapter.type", "optimizer.type", "optimizer.schedule.type",
    "device.kind", "memory.nvme.path", "memory.device"};

/// The first line that is neither empty nor a comment.
std::string first_line(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin != std::string::npos && line[begin] != '#')
      return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
  }
  return "";
}

/// [training], or steps = 10. Neither begins a map of YAML or JSON.
bool begins_toml(const std::string& text) {
  const std::string line = first_line(text);
  const std::size_t name_end = line.find_first_not_of(
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", line.starts_with('[') ? 1 : 0);
  if (name_end == std::string::npos || name_end == 0) return false;
  if (line.starts_with('[')) return line.substr(name_end) == "]" && name_end > 1;
  const std::size_t sign = line.find_first_not_of(' ', name_end);
  return sign != std::string::npos && line[sign] == '=';
}

[[noreturn]] void refuse_file_of(const ForeignTool& tool, const Source& source) {
  fail(source.name,
       fmt::format("this is a file of {}, and Strata reads its own run files; {} has its keys and ours",
                   tool.name, shipped_file(std::string(tool.page))));
}

}  // namespace

std::string answer_to_foreign_key(const std::string& path) {
  const ForeignKey* found = foreign_key_of(path);
  if (found == nullptr) return "";
  if (found->ours.empty()) return fmt::format("it {}", found->remark);
  return fmt::format("it is {} here{}{}", found->ours, found->remark.empty() ? "" : "; ", found->remark);
}

PlacedKey most_telling_key(const PlacedKey& key, const YAML::Node& node) {
  return foreign_key_within(key.path, node).value_or(key);
}

std::string answer_to_foreign_value(const std::string& path, const YAML::Node& node) {
  if (!node.IsScalar()) return "";
  const std::string value = in_table_form(node.Scalar());
  const auto found = std::ranges::find_if(foreign_values(), [&](const ForeignValue& each) {
    return each.key == path && (each.values == "*" || has_word(each.values, value));
  });
  return found == foreign_values().end() ? "" : fmt::format("; {}", found->answer);
}

std::string answer_to_scalar_section(const std::string& section, const YAML::Node& node) {
  if (!node.IsScalar()) return "";
  for (const std::string_view key : kKeysOfSections) {
    if (key.substr(0, key.rfind('.')) != section) continue;
    return fmt::format("; '{}' is a value for {}{}", node.Scalar(), key,
                       answer_to_foreign_value(std::string(key), node));
  }
  return "";
}

void refuse_toml(const std::string& text, const Source& source) {
  if (!begins_toml(text)) return;
  for (const ForeignTool& tool : foreign_tools()) {
    const bool has_sections = any_word(tool.keys, [&](std::string_view key) {
      return text.find(fmt::format("[{}", key)) != std::string::npos;
    });
    if (has_sections) refuse_file_of(tool, source);
  }
  fail(source.name, "this is TOML, and a run file is YAML or JSON");
}

void refuse_foreign_file(const YAML::Node& root, const Source& source) {
  if (!root.IsMap()) return;
  const auto count_of = [&root](std::string_view keys) {
    int count = 0;
    for (const auto& entry : root) count += entry.first.IsScalar() && has_word(keys, entry.first.Scalar());
    return count;
  };
  // Every run file of ours has one of these, and a person may have mixed other words into it.
  if (count_of("model data train models") > 0) return;
  const ForeignTool* most = nullptr;
  int most_keys = 0;
  for (const ForeignTool& tool : foreign_tools()) {
    const int keys = count_of(tool.keys);
    if (keys > most_keys) most = &tool;
    most_keys = std::max(most_keys, keys);
  }
  if (most != nullptr) refuse_file_of(*most, source);
}

}  // namespace strata
