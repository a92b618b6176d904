#include "engine/run/tune/planning_rates.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/topology.h"
#include "engine/config/run_config.h"
#include "engine/plan/cost/machine_document.h"

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

}  // namespace

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

}  // namespace strata
