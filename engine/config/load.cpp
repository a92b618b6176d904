#include "engine/config/load.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/nth.h"
#include "base/watchdog.h"
#include "engine/config/run_config.h"
#include "engine/config/run_models.h"
#include "engine/config/yaml_document.h"

namespace strata {

RunConfig parse_run_config(std::string_view text, const std::string& name,
                           const std::vector<std::string>& overrides, std::int64_t ranks) {
  RunModels run = parse_run_models(text, name, overrides, ranks);
  if (run.is_several) fail(name, "this run file has several models; give one of a single model");
  return std::move(run.models.front().config);
}

RunConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides,
                          std::int64_t ranks) {
  return parse_run_config(read_run_file(path), path, overrides, ranks);
}

std::string read_run_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw ConfigError(path + ": is a folder, not a run file");
  const WatchedWait wait([&path] { return "reading " + path; });
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw ConfigError(path + ": cannot read the run file: " + std::generic_category().message(errno));
  std::string text(kMaxRunFileBytes + 1, '\0');  // one more shows that there is more
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  resize(text, file.gcount());
  return text;
}

}  // namespace strata
