#include "engine/plan/cost/rates.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_reason.h"
#include "engine/plan/cost/machine_document.h"

namespace strata {

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
