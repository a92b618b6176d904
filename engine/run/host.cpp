#include "engine/run/host.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/host_memory.h"
#include "engine/plan/search/machine_document.h"
#include "offload/spill_folder.h"

namespace strata {
namespace {

/// Null where the profile does not say. What is wrong with a profile besides is said where its rates are
/// read.
nlohmann::json profiled_value(const std::string& path, const char* key) {
  if (path.empty() || !is_there(path)) return {};
  const nlohmann::json profile = machine_document(read_file(path), path);
  return profile.is_object() ? profile.value(key, nlohmann::json()) : nlohmann::json();
}

}  // namespace

HostResources this_host(const RunConfig& config) {
  const std::vector<std::string>& folders = config.memory.nvme_path;
  return {.memory = usable_memory(), .drives = folders.empty() ? kUnlimited : free_for_spilling(folders)};
}

std::optional<Bytes> profiled_memory(const std::string& path, const char* key) {
  const nlohmann::json memory = profiled_value(path, key);
  if (!memory.is_number_integer() || memory.get<Bytes>() < 1) return std::nullopt;
  return memory.get<Bytes>();
}

std::optional<bool> profiled_bf16(const std::string& path) {
  const nlohmann::json bf16 = profiled_value(path, kBf16Key);
  return bf16.is_boolean() ? std::optional(bf16.get<bool>()) : std::nullopt;
}

bool profiled_as_measured(const std::string& path) {
  const nlohmann::json measured = profiled_value(path, kMeasuredKey);
  return measured.is_boolean() && measured.get<bool>();
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
