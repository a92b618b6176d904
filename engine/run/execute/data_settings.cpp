#include "engine/run/execute/data_settings.h"

#include <fmt/format.h>

#include "base/excerpt.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "engine/config/keys.h"
#include "engine/config/run_config.h"

namespace strata {
namespace {

bool decides_samples(const std::string& key) {
  if (key == "data.cache") return false;  // where ids are kept, not which
  return key.starts_with("data.") || key == "train.batch" || key == "train.seed";
}

/// A manifest has room for some KiB.
std::string short_value(const std::string& value) {
  constexpr std::size_t kMost = 512;
  if (value.size() <= kMost) return value;
  return fmt::format("{} bytes with the hash {}", value.size(), hex(hash_text(value)));
}

/// A manifest may be anybody's: no byte of it reaches a terminal as a control character.
std::string shown(const std::string& value) {
  if (value.empty()) return "not given";
  std::string text = json_text(value);
  text = text.substr(1, text.size() - 2);
  for (std::size_t at = text.find("\\\""); at != text.npos; at = text.find("\\\"", at)) text.erase(at, 1);
  return excerpt(text);
}

}  // namespace

DataSettings data_settings(const RunConfig& config) {
  DataSettings settings;
  for (const Key& key : config_keys()) {
    if (decides_samples(key.path)) settings[key.path] = short_value(key.get(config));
  }
  return settings;
}

std::vector<std::string> differences(const DataSettings& saved, const DataSettings& wanted) {
  std::vector<std::string> sentences;
  for (const auto& [key, value] : saved) {
    const auto now = wanted.find(key);
    if (now == wanted.end() || now->second == value) continue;
    sentences.push_back(fmt::format(
        "{} is not that of the checkpoint: it was {}, and is {} now; the run continues with other "
        "samples",
        key, shown(value), shown(now->second)));
  }
  return sentences;
}

}  // namespace strata
