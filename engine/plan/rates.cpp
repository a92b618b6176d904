#include "engine/plan/rates.h"

#include <algorithm>

#include "engine/base/topology.h"

namespace strata {

MachineRates nominal_rates(const RunConfig& config) {
  const double cores = config.train.threads > 0 ? static_cast<double>(config.train.threads) : usable_cores();
  const double copy = 8e9 * cores;
  const auto link = [&](std::optional<Bytes> limit) { return limit ? std::min(copy, static_cast<double>(*limit)) : copy; };
  return {.flops_per_second = (config.train.precision == DType::bf16 ? 400e9 : 200e9) * cores,
          .memory_bytes_per_second = 2 * copy,
          .h2d_bytes_per_second = link(config.device.h2d_per_second),
          .d2h_bytes_per_second = link(config.device.d2h_per_second)};
}

double estimated_seconds(const MachineRates& rates, double flops, Bytes h2d, Bytes d2h) {
  const double cores_busy =
      flops / rates.flops_per_second + 2 * static_cast<double>(h2d + d2h) / rates.memory_bytes_per_second;
  return std::max({cores_busy, static_cast<double>(h2d) / rates.h2d_bytes_per_second,
                   static_cast<double>(d2h) / rates.d2h_bytes_per_second});
}

}  // namespace strata
