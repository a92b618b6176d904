#include "engine/run/checkpoint/companions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/nth.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kMoreTemplates = "additional_chat_templates";

constexpr std::array<std::string_view, 2> kModelFiles = {"config.json", "generation_config.json"};
constexpr std::array<std::string_view, 9> kTokenizerFiles = {
    kTokenizerFile, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",   "tokenizer.model",       "chat_template.jinja",     "chat_template.json"};

bool is_more_template(const fs::path& name) {
  return name.parent_path() == kMoreTemplates && name.extension() == ".jinja";
}

bool is_known(const std::string& name) {
  return std::ranges::count(kModelFiles, name) + std::ranges::count(kTokenizerFiles, name) > 0 ||
         is_more_template(name);
}

class CompanionReading {
 public:
  CompanionReading(std::vector<std::string>& warnings, Bytes limit) : warnings_(warnings), left_(limit) {}

  /// Nothing happens if it is not there.
  void add(const fs::path& file, std::string name) {
    if (!is_there(file)) return;
    try {
      const FileReader reader(file);
      if (reader.size() > left_) {
        warnings_.push_back(
            fmt::format("{} has {}, which is too much for every checkpoint: checkpoints and exports go "
                        "without it, so copy it yourself",
                        file.string(), format_bytes(reader.size())));
        return;
      }
      auto content = sized<std::string>(reader.size());
      reader.read(0, std::as_writable_bytes(std::span(content)));
      left_ -= reader.size();
      read_.push_back({std::move(name), std::move(content)});
    } catch (const IoError& error) {
      go_without(file, error);
    }
  }

  void add_templates(const fs::path& folder) {
    if (!is_there(folder)) return;
    try {
      for (const std::string& name : FileSystem::real().list(folder)) {
        const fs::path relative = fs::path(kMoreTemplates) / name;
        if (is_more_template(relative)) add(folder / name, relative.string());
      }
    } catch (const IoError& error) {
      go_without(folder, error);
    }
  }

  Companions take() { return std::move(read_); }

 private:
  void go_without(const fs::path& path, const IoError& error) {
    warnings_.push_back(
        fmt::format("checkpoints and exports go without {}: {}", path.filename().string(), error.what()));
  }

  std::vector<std::string>& warnings_;
  Bytes left_;
  Companions read_;
};

}  // namespace

Companions find_companions(const CompanionSources& sources, std::vector<std::string>& warnings, Bytes limit) {
  CompanionReading reading(warnings, limit);
  if (!sources.model.empty()) {
    for (const std::string_view name : kModelFiles) reading.add(sources.model / name, std::string(name));
  }
  if (sources.tokenizer.empty()) return reading.take();
  std::error_code error;
  const bool is_file = fs::is_regular_file(sources.tokenizer, error);
  const fs::path folder = is_file ? sources.tokenizer.parent_path() : sources.tokenizer;
  for (const std::string_view name : kTokenizerFiles) {
    const bool is_named = is_file && name == kTokenizerFile;
    reading.add(is_named ? sources.tokenizer : folder / name, std::string(name));
  }
  reading.add_templates(folder / kMoreTemplates);
  return reading.take();
}

Companions stored_companions(const fs::path& folder, const Manifest& manifest,
                             std::vector<std::string>& warnings, FileSystem& file_system) {
  Companions stored;
  for (const auto& [name, expected] : manifest.companions) {
    const fs::path file = folder / kCompanionFolder / name;
    if (!is_known(name)) {
      warnings.push_back(fmt::format("{} is left out: this program does not know what it is", file.string()));
      continue;
    }
    try {
      Companion read{name, read_file(file, file_system)};
      if (hex(hash_text(read.content)) != expected.xxh3)
        throw DamageError(fmt::format("{} is not what was saved", file.string()));
      stored.push_back(std::move(read));
    } catch (const Error& error) {
      warnings.push_back(fmt::format("{} is left out: {}", name, error.what()));
    }
  }
  return stored;
}

std::map<std::string, Manifest::File> write_companions(FileSystem& file_system, const fs::path& folder,
                                                       const Companions& companions) {
  std::map<std::string, Manifest::File> files;
  const fs::path more = folder / kMoreTemplates;
  const bool has_more =
      std::ranges::any_of(companions, [](const auto& c) { return is_more_template(c.name); });
  if (has_more) file_system.create_folder(more);
  for (const auto& [name, content] : companions) {
    write_file(file_system, folder / name, content);
    files[name] = {std::ssize(content), hex(hash_text(content))};
  }
  if (has_more) file_system.sync_folder(more);
  return files;
}

const Companion* find(const Companions& companions, std::string_view name) {
  const auto found = std::ranges::find(companions, name, &Companion::name);
  return found == companions.end() ? nullptr : &*found;
}

bool have_tokenizer(const Companions& companions) {
  constexpr std::array<std::string_view, 3> kVocabularies = {kTokenizerFile, "tokenizer.model", "vocab.json"};
  return std::ranges::any_of(kVocabularies, [&](std::string_view name) { return find(companions, name); });
}

}  // namespace strata
