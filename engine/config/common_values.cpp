#include "engine/config/common_values.h"

#include <algorithm>

#include "engine/config/keys.h"
#include "engine/config/run_config.h"

namespace strata {

const std::vector<std::string>& keys_of_one_host() {
  static const std::vector<std::string> keys = {
      "train.threads",           "memory.nvme.engine", "memory.nvme.verify", "memory.nvme.limit.read",
      "memory.nvme.limit.write", "plan.machine",       "device.link.h2d",    "device.link.d2h",
      "device.link.ranks",       "device.flops",       "report.metrics",     "report.tensorboard",
      "report.trace.path",       "report.trace.steps"};
  return keys;
}

const std::vector<std::string>& paths_on_one_host() {
  static const std::vector<std::string> keys = {
      "model.path", "data.path",    "data.sources",     "data.validation", "data.tokenizer_path",
      "data.cache", "adapter.path", "memory.nvme.path", "checkpoint.path", "device.product_table"};
  return keys;
}

std::vector<std::pair<std::string, std::string>> common_values(const RunConfig& config) {
  const auto among = [](const std::vector<std::string>& keys, const std::string& path) {
    return std::ranges::find(keys, path) != keys.end();
  };
  std::vector<std::pair<std::string, std::string>> values;
  for (const Key& key : config_keys()) {
    if (among(keys_of_one_host(), key.path)) continue;
    const std::string value = key.get(config);
    const bool is_path = among(paths_on_one_host(), key.path) && !value.empty() && value != "none";
    values.emplace_back(key.path, is_path ? "a path" : value);
  }
  return values;
}

}  // namespace strata
