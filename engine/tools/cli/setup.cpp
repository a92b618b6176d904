#include "engine/tools/cli/setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/watchdog.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/config/value.h"
#include "engine/tools/cli/own_name.h"

namespace strata {

std::string RunFileCommand::line(std::string_view name) const {
  std::vector<std::string> words = {std::string(name), run_file};
  for (const std::string& override : overrides) words.insert(words.end(), {"--set", override});
  return command_line(words);
}

DocumentOptions document_options(const DocumentsCommand& command) {
  std::map<std::string, std::string> names;
  for (const std::string& given : command.fields) {
    const std::size_t equals = std::min(given.find('='), given.size());
    const std::string field = given.substr(0, equals), key = given.substr(std::min(equals + 1, given.size()));
    if (key.empty() || !std::ranges::count(kRecordFields, field))
      throw ConfigError(fmt::format("--field: '{}' is not FIELD=KEY with one of the fields {}", given,
                                    fmt::join(kRecordFields, ", ")));
    names[field] = key;
  }
  return {.format = value::find_word<DataFormat>(command.format).value_or(DataFormat::automatic),
          .fields = RecordFields(names)};
}

void check_json_path(std::string_view option, const std::string& path) {
  if (path.empty() || path == "-") return;
  const WatchedWait wait([&path] { return "opening " + path; });
  const std::ofstream file(path, std::ios::app);
  if (!file) throw ConfigError(fmt::format("{}: cannot write {}: {}", option, path, std::strerror(errno)));
}

void write_json(const std::string& path, const nlohmann::json& json) {
  if (path.empty()) return;
  if (path == "-") {
    std::cout << json_text(json, 2) << '\n';
    return;
  }
  const WatchedWait wait([&path] { return "writing " + path; });
  std::ofstream file(path);
  file << json_text(json, 2) << '\n';
  file.close();
  if (!file) throw IoError(fmt::format("cannot write the report to {}: {}", path, std::strerror(errno)));
  std::error_code cannot_be_asked;
  if (!std::filesystem::is_regular_file(path, cannot_be_asked)) return;
  const FileDescriptor written(FileSystem::real().open(path));
  FileSystem::real().sync(written.get(), path);
}

}  // namespace strata
