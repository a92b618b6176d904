#include "engine/run/tune/host_figures.h"

#include <algorithm>
#include <utility>

#include "engine/config/run_config.h"
#include "engine/run/tune/planning_rates.h"

namespace strata {

HostFigures host_figures(const RunConfig& config) {
  return {.rates = planning_rates(config),
          .device = config.memory.device,
          .host = config.memory.host,
          .nvme = config.memory.nvme_size};
}

std::string to_text(const HostFigures& figures) {
  return nlohmann::json{{"rates", profile_json(figures.rates)},
                        {"device", figures.device},
                        {"host", figures.host ? nlohmann::json(*figures.host) : nlohmann::json()},
                        {"nvme", figures.nvme}}
      .dump();
}

HostFigures figures_from_text(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  HostFigures figures;
  figures.rates = rates_from_profile(json.at("rates"));
  figures.device = json.at("device");
  figures.nvme = json.at("nvme");
  if (!json.at("host").is_null()) figures.host = json.at("host").get<Bytes>();
  return figures;
}

HostFigures smallest(const std::vector<HostFigures>& all) {
  HostFigures result = all.at(0);
  for (const HostFigures& each : all) {
    for (double MachineRates::*rate :
         {&MachineRates::flops_per_second, &MachineRates::memory_bytes_per_second,
          &MachineRates::h2d_bytes_per_second, &MachineRates::d2h_bytes_per_second,
          &MachineRates::nvme_read_bytes_per_second, &MachineRates::nvme_write_bytes_per_second,
          &MachineRates::cores, &MachineRates::copy_bytes_per_second})
      result.rates.*rate = std::min(result.rates.*rate, each.rates.*rate);
    result.rates.links = slowest(result.rates.links, each.rates.links);
    result.rates.cores_copy = result.rates.cores_copy || each.rates.cores_copy;
    result.device = std::min(result.device, each.device);
    result.nvme = std::min(result.nvme, each.nvme);
    if (result.host && each.host) {
      result.host = std::min(*result.host, *each.host);
    } else {
      result.host.reset();
    }
  }
  return result;
}

RunConfig with_budgets(RunConfig config, const HostFigures& figures) {
  config.memory.device = figures.device;
  if (figures.host) config.memory.host = figures.host;
  config.memory.nvme_size = figures.nvme;
  return config;
}

}  // namespace strata
