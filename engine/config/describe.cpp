#include "engine/config/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include "engine/config/keys.h"
#include "engine/config/run_config.h"
#include "engine/config/run_keys.h"
#include "engine/config/run_models.h"
#include "engine/config/value.h"

namespace strata {
namespace {

constexpr std::string_view kDumped = "# The full effective run file: a run with it repeats this one.\n";

template <typename C>
bool is_direct_key(const KeyOf<C>& key, const Section& section) {
  return key.path.substr(0, key.path.rfind('.')) == section.path;
}

std::string indentation(const Section& section) {
  return sized<std::string>(2 * std::ranges::count(section.path, '.'), ' ');
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

/// "name:  words", the words below the name if the line would be longer than `columns`.
std::string titled(const std::string& name, std::string_view words, const std::string& indent,
                   std::size_t columns) {
  const std::string line = fmt::format("{}{}:  {}\n", indent, name, words);
  return line.size() <= columns + 1
             ? line
             : fmt::format("{}{}:\n{}", indent, name, wrapped(words, indent + "      ", columns));
}

template <typename C>
std::string described_key(const KeyOf<C>& key, const std::string& indent, std::size_t columns) {
  const std::string value = key.get(C());
  const std::string unit = key.unit.empty() ? "" : fmt::format(" ({})", key.unit);
  const std::string words = value.empty() ? "no default" : "default " + value;
  const std::string values =
      fmt::format("{}{}; {}", key.type, unit, key.default_words.empty() ? words : key.default_words);
  return titled(leaf_of(key.path), values, indent, columns) + wrapped(key.doc, indent + "    ", columns);
}

template <typename C>
std::string described_sections(const std::vector<Section>& sections, const std::vector<KeyOf<C>>& keys,
                               std::size_t columns) {
  std::string text;
  for (const Section& section : sections) {
    const std::string indent = indentation(section);
    text += "\n" + titled(leaf_of(section.path), section.doc, indent, columns);
    for (const KeyOf<C>& key : keys) {
      if (is_direct_key(key, section)) text += described_key(key, indent + "  ", columns);
    }
  }
  return text;
}

/// `absent` is what to say of a key that has no value.
template <typename C, typename Value, typename Absent>
std::string dumped_sections(const std::vector<Section>& sections, const std::vector<KeyOf<C>>& keys,
                            const Value& value_of, const Absent& absent) {
  std::string text;
  for (const Section& section : sections) {
    const std::string indent = indentation(section);
    text += fmt::format("{}{}:\n", indent, leaf_of(section.path));
    for (const KeyOf<C>& key : keys) {
      if (!is_direct_key(key, section)) continue;
      const std::string value = value_of(key);
      text += value.empty() ? fmt::format("{}  # {}: {}\n", indent, leaf_of(key.path), absent(key))
                            : fmt::format("{}  {}: {}\n", indent, leaf_of(key.path), value);
    }
  }
  return text;
}

/// What a dump says of a key without a value.
std::string not_given(const Key& key) {
  return fmt::format("({})", key.default_words.empty() ? "not given" : key.default_words);
}

/// What all models have in common, with the run's own folders and file.
RunConfig common_config(const RunModels& run, const std::set<std::string>& differing) {
  RunConfig config = run.models.front().config;
  config.checkpoint.path = run.checkpoint_path;
  config.report.metrics = run.metrics;
  config.report.tensorboard = run.tensorboard;
  auto& model = config.model.config;
  for (auto item = model.begin(); item != model.end();)
    item = differing.contains("model.config." + item.key()) ? model.erase(item) : std::next(item);
  return config;
}

std::string dumped_models(const std::vector<NamedRun>& models) {
  std::string text = "models:\n";
  for (const NamedRun& model : models) {
    text += fmt::format("  - name: {}\n", value::Text::write(model.name));
    for (const auto& [path, value] : model.overrides) {
      const bool is_of_table = find_path(config_keys(), path) != nullptr;
      text += fmt::format("    {}: {}\n", is_of_table ? path : value::Text::write(path), value);
    }
  }
  return text;
}

}  // namespace

std::vector<std::string> key_paths() {
  std::vector<std::string> paths;
  paths.reserve(config_keys().size() + run_keys().size());
  for (const Key& key : config_keys()) paths.push_back(key.path);
  for (const RunKey& key : run_keys()) paths.push_back(key.path);
  return paths;
}

std::string help_config(std::size_t columns) {
  std::string text =
      wrapped(
          "The run file is YAML. Every key can be overridden on the command line: --set optimizer.lr=1e-4.",
          "", columns) +
      wrapped(
          "Relative paths start at the current directory. A path may begin with ~/, and may have ${NAME} for "
          "a "
          "variable of the environment, ${RUN_FILE_DIR} for the folder of the run file, and $$ for a $.",
          "", columns) +
      described_sections(config_sections(), config_keys(), columns);
  for (const RunKey& key : run_keys()) {
    if (key.path.find('.') == std::string::npos) text += "\n" + described_key(key, "", columns);
  }
  return text + described_sections(run_sections(), run_keys(), columns);
}

std::string dump(const RunConfig& config) {
  return std::string(kDumped) + dumped_sections(
                                    config_sections(), config_keys(),
                                    [&](const Key& key) {
                                      const auto& open = config.plan.open;
                                      const bool is_open = std::ranges::find(open, key.path) != open.end();
                                      return is_open ? std::string() : key.get(config);
                                    },
                                    not_given);
}

std::string dump(const RunModels& run) {
  if (!run.is_several) return dump(run.models.front().config);
  std::set<std::string> differing;
  for (const NamedRun& model : run.models) {
    for (const auto& override : model.overrides) differing.insert(override.first);
  }
  differing.erase("checkpoint.path");
  differing.erase("report.metrics");
  differing.erase("report.tensorboard");
  const RunConfig common = common_config(run, differing);
  RunSections sections;
  sections.select = run.select;
  return std::string(kDumped) +
         dumped_sections(
             config_sections(), config_keys(),
             [&](const Key& key) { return differing.contains(key.path) ? "" : key.get(common); },
             [&](const Key& key) {
               return differing.contains(key.path) ? std::string("(each model's own)") : not_given(key);
             }) +
         dumped_sections(
             run_sections(), run_keys(), [&](const RunKey& key) { return key.get(sections); },
             [](const RunKey&) { return "(not given)"; }) +
         dumped_models(run.models);
}

}  // namespace strata
