#include "engine/config/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "engine/config/keys.h"

namespace strata {
namespace {

std::string leaf_of(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

bool is_direct_key(const Key& key, const Section& section) {
  return key.path.substr(0, key.path.rfind('.')) == section.path;
}

std::string indentation(const Section& section) {
  return std::string(2 * static_cast<std::size_t>(std::ranges::count(section.path, '.')), ' ');
}

/// `text` in lines of at most `width` bytes, each after `indent`.
std::string wrapped(std::string_view text, const std::string& indent, std::size_t width) {
  std::string result;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) result += indent + line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.empty()) continue;
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) flush();
    if (!line.empty()) line += ' ';
    line += word;
  }
  flush();
  return result;
}

std::string described_key(const Key& key, const std::string& indent) {
  constexpr std::size_t kWidth = 100;
  const std::string value = key.get(RunConfig());
  const std::string unit = key.unit.empty() ? "" : fmt::format(" ({})", key.unit);
  const std::string values =
      fmt::format("{}{}; {}", key.type, unit, value.empty() ? "no default" : "default " + value);
  std::string text = fmt::format("{}{}:  {}\n", indent, leaf_of(key.path), values);
  if (text.size() > kWidth + 1)
    text = fmt::format("{}{}:\n{}", indent, leaf_of(key.path), wrapped(values, indent + "      ", kWidth));
  return text + wrapped(key.doc, indent + "    ", kWidth);
}

}  // namespace

std::string help_config() {
  std::string text =
      "The run file is YAML. Every key can be overridden on the command line: --set optimizer.lr=1e-4.\n"
      "Relative paths start at the current directory.\n";
  for (const Section& section : config_sections()) {
    const std::string indent = indentation(section);
    text += fmt::format("\n{}{}:  {}\n", indent, leaf_of(section.path), section.doc);
    for (const Key& key : config_keys()) {
      if (is_direct_key(key, section)) text += described_key(key, indent + "  ");
    }
  }
  return text;
}

std::string dump(const RunConfig& config) {
  std::string text = "# The full effective run file: a run with it repeats this one.\n";
  for (const Section& section : config_sections()) {
    const std::string indent = indentation(section);
    text += fmt::format("{}{}:\n", indent, leaf_of(section.path));
    for (const Key& key : config_keys()) {
      if (!is_direct_key(key, section)) continue;
      const std::string value = key.get(config);
      text += value.empty() ? fmt::format("{}  # {}: (not given)\n", indent, leaf_of(key.path))
                            : fmt::format("{}  {}: {}\n", indent, leaf_of(key.path), value);
    }
  }
  return text;
}

}  // namespace strata
