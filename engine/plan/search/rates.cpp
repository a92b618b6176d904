#include "engine/plan/search/rates.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json_reason.h"
#include "base/topology.h"
#include "engine/plan/search/machine_document.h"

namespace strata {
namespace {

constexpr double kNvmeRead = 6e9, kNvmeWrite = 4e9;

double planned_cores(const RunConfig& config) {
  return config.train.threads > 0 ? static_cast<double>(config.train.threads) : usable_cores();
}

MachineRates cpu_rates(const RunConfig& config) {
  const double cores = planned_cores(config);
  const double copy = 8e9 * cores;
  return {.flops_per_second = (config.precision() == DType::bf16 ? 400e9 : 200e9) * cores,
          .memory_bytes_per_second = 2 * copy,
          .h2d_bytes_per_second = copy,
          .d2h_bytes_per_second = copy,
          .nvme_read_bytes_per_second = kNvmeRead,
          .nvme_write_bytes_per_second = kNvmeWrite,
          .cores = cores,
          .copy_bytes_per_second = copy / cores};
}

double cuda_flops_per_second(const RunConfig& config) {
  if (config.rounding() == Rounding::e4m3) return 900e12;
  return config.precision() == DType::fp32 ? 50e12 : 600e12;
}

MachineRates cuda_rates(const RunConfig& config) {
  return {.flops_per_second = cuda_flops_per_second(config),
          .memory_bytes_per_second = 200e9,
          .h2d_bytes_per_second = 50e9,
          .d2h_bytes_per_second = 50e9,
          .nvme_read_bytes_per_second = kNvmeRead,
          .nvme_write_bytes_per_second = kNvmeWrite,
          .cores_copy = false};
}

/// A rate that is 0 was not measured. One that is missing says that the machine has no drives.
void check_drives(const RunConfig& config, const nlohmann::json& profile) {
  if (config.memory.nvme_path.empty()) return;
  for (const char* key : {kDriveReadKey, kDriveWriteKey}) {
    if (profile.contains(key)) continue;
    throw ConfigError(
        fmt::format("memory.nvme.path: the run uses drives, and {} has no {}; add it there, or plan without "
                    "drives by --set memory.nvme.path=[]",
                    config.plan.machine, key));
  }
}

MachineRates checked_rates(const nlohmann::json& profile, const std::string& path) {
  try {
    MachineRates rates = rates_from_profile(profile);
    if (rates.kernels.is_valid()) return rates;
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(fmt::format("plan.machine: {} is no machine profile: {}", path, json_reason(error)));
  }
  throw ConfigError(
      fmt::format("plan.machine: {} is no machine profile: each of its kernels needs seconds above "
                  "0, and flops and bytes of 0 or more",
                  path));
}

}  // namespace

MachineRates parse_profile(std::string_view text, const std::string& path) {
  return checked_rates(machine_document(text, path), path);
}

nlohmann::json rates_json(const MachineRates& rates) {
  nlohmann::json json = links_json(rates.links);
  json.update({{"flops_per_second", rates.flops_per_second},
               {"memory_bytes_per_second", rates.memory_bytes_per_second},
               {"h2d_bytes_per_second", rates.h2d_bytes_per_second},
               {"d2h_bytes_per_second", rates.d2h_bytes_per_second},
               {kDriveReadKey, rates.nvme_read_bytes_per_second},
               {kDriveWriteKey, rates.nvme_write_bytes_per_second},
               {"cores_copy", rates.cores_copy},
               {"cores", rates.cores},
               {"copy_bytes_per_second", rates.copy_bytes_per_second}});
  return json;
}

nlohmann::json profile_json(const MachineRates& rates) {
  nlohmann::json profile = rates_json(rates);
  if (!rates.kernels.is_empty()) profile["kernels"] = rates.kernels.to_json();
  return profile;
}

MachineRates rates_from_profile(const nlohmann::json& json) {
  MachineRates rates;
  json.at("flops_per_second").get_to(rates.flops_per_second);
  json.at("memory_bytes_per_second").get_to(rates.memory_bytes_per_second);
  json.at("h2d_bytes_per_second").get_to(rates.h2d_bytes_per_second);
  json.at("d2h_bytes_per_second").get_to(rates.d2h_bytes_per_second);
  rates.nvme_read_bytes_per_second = json.value(kDriveReadKey, 0.0);
  rates.nvme_write_bytes_per_second = json.value(kDriveWriteKey, 0.0);
  json.at("cores_copy").get_to(rates.cores_copy);
  rates.cores = json.value("cores", rates.cores);
  rates.copy_bytes_per_second = json.value("copy_bytes_per_second", rates.copy_bytes_per_second);
  rates.links = links_from_json(json);
  if (json.contains("kernels")) rates.kernels = KernelTimes::from_json(json["kernels"]);
  return rates;
}

MachineRates planning_rates(const RunConfig& config) {
  MachineRates rates;
  if (!config.plan.machine.empty()) {
    if (!is_there(config.plan.machine)) {
      throw ConfigError(fmt::format("plan.machine: cannot read {}: strata doctor --profile writes one",
                                    config.plan.machine));
    }
    const nlohmann::json profile = machine_document(read_file(config.plan.machine), config.plan.machine);
    rates = checked_rates(profile, config.plan.machine);
    check_drives(config, profile);
    if (rates.nvme_read_bytes_per_second == 0) rates.nvme_read_bytes_per_second = kNvmeRead;
    if (rates.nvme_write_bytes_per_second == 0) rates.nvme_write_bytes_per_second = kNvmeWrite;
  } else {
    rates = config.device.kind == DeviceKind::cuda ? cuda_rates(config) : cpu_rates(config);
  }
  const auto limit = [](double& rate, std::optional<Bytes> most) {
    if (most) rate = std::min(rate, static_cast<double>(*most));
  };
  limit(rates.h2d_bytes_per_second, config.device.h2d_per_second);
  limit(rates.d2h_bytes_per_second, config.device.d2h_per_second);
  rates.links = rates.rank_links();
  limit(rates.links.inside_bytes_per_second, config.device.sent_per_second);
  limit(rates.links.across_bytes_per_second, config.device.sent_per_second);
  limit(rates.nvme_read_bytes_per_second, config.memory.nvme_read_per_second);
  limit(rates.nvme_write_bytes_per_second, config.memory.nvme_write_per_second);
  if (config.device.flops_per_second > 0 && config.device.flops_per_second < rates.flops_per_second) {
    rates.flops_per_second = config.device.flops_per_second;
    rates.cores_copy = false;  // while computing is held up, cores are free
  }
  return rates;
}

std::string nominal_device(const RunConfig& config) {
  if (config.device.kind == DeviceKind::cuda) return "an NVIDIA H100";
  const double cores = planned_cores(config);
  return fmt::format("a CPU of {} core{}", cores, cores == 1 ? "" : "s");
}

double MachineRates::share_of_memory(double bytes_per_second) const {
  return std::min(1.0, bytes_per_second / memory_bytes_per_second);
}

double MachineRates::share_of_cores(double copied_per_second) const {
  if (!cores_copy) return 0;
  const double by_one = copy_bytes_per_second > 0 ? copy_bytes_per_second
                                                  : std::max(h2d_bytes_per_second, d2h_bytes_per_second);
  return std::min(1.0, copied_per_second / by_one / cores);
}

RankLinks MachineRates::rank_links() const {
  RankLinks given = links;
  const double copied =
      cores_copy && copy_bytes_per_second > 0 ? copy_bytes_per_second : h2d_bytes_per_second;
  if (given.inside_bytes_per_second == 0) given.inside_bytes_per_second = copied;
  if (given.across_bytes_per_second == 0) given.across_bytes_per_second = given.inside_bytes_per_second;
  return given;
}

double estimated_seconds(const MachineRates& rates, double flops, Bytes h2d, Bytes d2h, double exchanging) {
  const double computing = flops / rates.flops_per_second;
  const double to_device = static_cast<double>(h2d) / rates.h2d_bytes_per_second,
               to_host = static_cast<double>(d2h) / rates.d2h_bytes_per_second;
  const double on_cores = computing + to_device * rates.share_of_cores(rates.h2d_bytes_per_second) +
                          to_host * rates.share_of_cores(rates.d2h_bytes_per_second) +
                          exchanging * rates.share_of_exchange();
  return std::max({on_cores, to_device, to_host, exchanging});
}

double nvme_seconds(const MachineRates& rates, Bytes read, Bytes written) {
  const auto seconds = [](Bytes bytes, double rate) {
    return bytes == 0 ? 0 : static_cast<double>(bytes) / rate;
  };
  return seconds(read, rates.nvme_read_bytes_per_second) +
         seconds(written, rates.nvme_write_bytes_per_second);
}

}  // namespace strata
