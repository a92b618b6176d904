#include "engine/run/tune/host_budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/tune/request_of_run.h"

namespace strata {

Bytes scratch_bytes(const RunConfig& config, const Model& model) {
  const Strategy strategy = plan_request(config, model).strategy;
  std::int64_t unit = 0;
  for (const Unit& each : model.units) unit = std::max({unit, each.elements, each.frozen_elements});
  const std::int64_t shard = strategy.mesh.shard_elements(unit);
  // Values to load: of a master all, if a rank keeps the parameter whole.
  Bytes bytes =
      (strategy.zero_stage < 3 ? strategy.mesh.gathered_elements(unit) : shard) * size_of(DType::fp32);
  // As they are stored on a device that the host cannot address; and another rank's, while they are hashed.
  if (config.device.kind != DeviceKind::cpu) bytes += shard * (size_of(DType::fp32) + size_of(DType::bf16));
  if (strategy.mesh.ranks() > 1) bytes += shard * size_of(DType::fp32);
  // Before it is packed.
  if (strategy.packed.has(Flat::frozen) || strategy.packed.has(Flat::trained))
    bytes +=
        (strategy.gathers() ? shard : strategy.mesh.gathered_elements(unit)) * size_of(strategy.precision);
  return bytes;
}

namespace {

/// What the processes of `ranks` ranks need besides their arenas. Measured as VmRSS of a tiny model's run on
/// two cores: 104 MiB of code and libraries, which the ranks of a host share, and 125 MiB of memory for each
/// rank.
Bytes process_bytes(int ranks) {
  constexpr Bytes kCode = 104 * MiB, kRank = 125 * MiB;
  return kCode / ranks + kRank;
}

/// Whether a budget of this memory is what the machine has.
bool is_open(const RunConfig& config) {
  const bool is_of_host = config.device.kind == DeviceKind::cpu;
  return (is_of_host && config.memory.device == kUnlimited) || config.memory.host == kUnlimited;
}

}  // namespace

HostShare share_of_host(const RunConfig& config, const Model& model, const HostResources& host, int ranks,
                        Bytes kernels) {
  constexpr Bytes kLargestReserve = 4 * GiB;
  HostShare share{.machine = host.memory, .device = host.device, .ranks = ranks};
  if (host.drives != kUnlimited) share.drives = host.drives / ranks;
  if (host.memory == kUnlimited) {
    share.for_tiers = kUnlimited;
    return share;
  }
  const Bytes own = host.memory / ranks, process = process_bytes(ranks);
  share.reserve = std::max(std::min(own / 8, kLargestReserve), process);
  share.scratch = scratch_bytes(config, model);
  share.kernels = kernels;
  const Bytes taken = share.reserve + share.scratch + share.kernels;
  if (taken + kBufferAlignment > own && is_open(config))
    throw ConfigError(
        fmt::format("memory: {} is too little for unlimited budgets: {} before the model ({} for the "
                    "process, {} to load, save and hash state, {} for kernels' scratch); give the "
                    "container more than {}, or set memory.device and memory.host",
                    format_bytes(host.memory),
                    ranks > 1 ? fmt::format("{} ranks need {} each", ranks, format_bytes(taken))
                              : fmt::format("a run needs {}", format_bytes(taken)),
                    format_bytes(process), format_bytes(share.scratch), format_bytes(share.kernels),
                    format_bytes(taken * ranks)));
  share.for_tiers = std::max(own - taken, kBufferAlignment);
  return share;
}

std::string HostShare::describe() const {
  return fmt::format(
      "{} of {} may be used{}; {} stay for code, system and page cache, {} to load, save and hash state{}{}",
      format_bytes(for_tiers), format_bytes(machine),
      ranks > 1 ? fmt::format(" by each of {} ranks", ranks) : "", format_bytes(reserve),
      format_bytes(scratch),
      kernels > 0 ? fmt::format(", {} for kernels' scratch", format_bytes(kernels)) : "",
      drives == kUnlimited ? ""
                           : fmt::format("; {} are free in memory.nvme.path{}", format_bytes(drives),
                                         ranks > 1 ? " for each" : ""));
}

void set_unlimited(MemorySection& memory, DeviceKind device, const HostShare& share) {
  if (memory.nvme_size == kUnlimited) memory.nvme_size = share.drives;
  if (device != DeviceKind::cpu && memory.device == kUnlimited) memory.device = share.device;
  const Bytes all = share.for_tiers;
  if (all == kUnlimited) return;
  const bool host_is_open = memory.host == kUnlimited;
  if (device != DeviceKind::cpu) {
    if (host_is_open) memory.host = all;
    return;
  }
  const auto left_by = [&](Bytes other) { return std::max(all - other, kBufferAlignment); };
  if (memory.device == kUnlimited && host_is_open) {
    memory.device = std::max(all / 2, kBufferAlignment);
    memory.host = memory.device;
  } else if (host_is_open) {
    memory.host = left_by(memory.device);
  } else if (memory.device == kUnlimited && memory.host.value_or(0) < all) {
    memory.device = left_by(memory.host.value_or(0));
  }
}

std::string warn_of_budgets(const RunConfig& config, const HostShare& share) {
  const Bytes device =
      config.device.kind == DeviceKind::cpu && config.memory.device != kUnlimited ? config.memory.device : 0;
  const Bytes host = config.memory.host.value_or(0), own = share.machine / share.ranks;
  if (host <= own - std::min(own, device)) return "";
  return fmt::format("memory.{}: {} is more than this machine has{}: {}", host > device ? "host" : "device",
                     format_bytes(std::max(host, device)),
                     share.ranks > 1 ? fmt::format(" for each of {} ranks", share.ranks)
                     : device > 0    ? " for both tiers"
                                     : "",
                     format_bytes(own));
}

}  // namespace strata
