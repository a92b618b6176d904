#include "engine/run/assembly/host.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/host_memory.h"
#include "engine/config/run_config.h"
#include "offload/spill_folder.h"

namespace strata {
namespace {

/// Nothing where the profile does not say.
template <typename T>
std::optional<T> profiled(const std::string& path, const char* key) {
  if (path.empty() || !is_there(path)) return std::nullopt;
  const nlohmann::json profile = machine_document(read_file(path), path);
  const auto found = profile.find(key);
  return found == profile.end() ? std::nullopt : std::optional(found->get<T>());
}

}  // namespace

HostResources this_host(const RunConfig& config) {
  const std::vector<std::string>& folders = config.memory.nvme_path;
  return {.memory = usable_memory(), .drives = folders.empty() ? kUnlimited : free_for_spilling(folders)};
}

std::optional<Bytes> profiled_memory(const std::string& path, const char* key) {
  return profiled<Bytes>(path, key);
}

std::optional<bool> profiled_bf16(const std::string& path) {
  return profiled<bool>(path, kBf16Key);
}

bool profiled_as_measured(const std::string& path) {
  return profiled<bool>(path, kMeasuredKey).value_or(false);
}

HostResources planned_host(const RunConfig& config) {
  HostResources host = this_host(config);
  host.memory = profiled_memory(config.plan.machine).value_or(host.memory);
  if (!config.memory.nvme_path.empty() && host.drives == kUnlimited)
    host.drives = profiled_memory(config.plan.machine, kDrivesKey).value_or(kUnlimited);
  if (config.device.kind != DeviceKind::cpu)
    host.device = profiled_memory(config.plan.machine, kDeviceMemoryKey).value_or(host.device);
  return host;
}

}  // namespace strata
