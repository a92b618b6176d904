#include "engine/plan/search/refusal.h"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace strata {
namespace {

/// Raises `budget`, one of `config`, to what tries that fail say they are short of, until one succeeds.
/// Nothing if it was enough.
std::optional<Bytes> raise(Bytes& budget, Bytes Shortage::*said, const RunConfig& config,
                           CheapestSearch& search) {
  std::optional<Bytes> raised;
  for (;;) {
    Shortage shortage;
    if (search.find(config, shortage)) return raised;
    const Bytes need = shortage.*said;
    if (need == kUnlimited || need <= budget)
      throw std::logic_error("the smallest budgets that a run needs do not hold it");
    raised = budget = need;
  }
}

/// The device's first, then what the host needs beside it, then the drives. Each is the smallest with those
/// before it, however much those behind it hold. `searches` are those of `config`.
NeededBudgets find_needed(RunConfig config, const Model& model, const MachineRates& rates,
                          std::vector<CheapestSearch> searches) {
  NeededBudgets needed;
  const Bytes device = smallest_device_bytes(config, model);
  const bool is_too_small = config.memory.device < device;
  if (is_too_small) needed.device = config.memory.device = device;
  if (!config.memory.host) return needed;
  if (is_too_small) searches = searches_of(config, model, rates);
  const auto raise_for_all = [&](Bytes& budget, Bytes Shortage::*said) {
    std::optional<Bytes> raised;
    for (CheapestSearch& search : searches) {
      if (const std::optional<Bytes> of_stage = raise(budget, said, config, search)) raised = of_stage;
    }
    return raised;
  };
  const Bytes drives = std::exchange(config.memory.nvme_size, kUnlimited);
  needed.host = raise_for_all(*config.memory.host, &Shortage::host);
  config.memory.nvme_size = drives;
  if (!config.memory.nvme_path.empty()) needed.nvme = raise_for_all(config.memory.nvme_size, &Shortage::nvme);
  return needed;
}

std::string exact(Bytes bytes) {
  return fmt::format("{} ({} bytes)", format_bytes(bytes), bytes);
}

/// The budgets of other tiers that are too small, too, behind the first.
std::string and_others(const NeededBudgets& needed, bool host_is_said) {
  std::string others;
  const auto add = [&](std::string_view key, const std::optional<Bytes>& bytes) {
    if (bytes)
      others += fmt::format("{}{} at least {}", others.empty() ? ", with " : " and ", key, exact(*bytes));
  };
  if (!host_is_said) add("memory.host", needed.host);
  add("memory.nvme.size", needed.nvme);
  return others;
}

/// The other way for a run without a host tier that needs `alone` of the device.
std::string with_a_host(RunConfig config, const Model& model, const MachineRates& rates, Bytes alone) {
  config.memory.host = 1;
  const NeededBudgets needed = find_needed(config, model, rates, searches_of(config, model, rates));
  if (!needed.device) return fmt::format("; or add memory.host: {}", exact(*needed.host));
  if (*needed.device >= alone) return "";
  return fmt::format("; with memory.host: {} it would be {}", exact(*needed.host), exact(*needed.device));
}

}  // namespace

std::vector<CheapestSearch> searches_of(const RunConfig& config, const Model& model,
                                        const MachineRates& rates) {
  std::vector<CheapestSearch> searches;
  searches.reserve(static_cast<std::size_t>(config.parallel.pipeline));
  for (std::int32_t stage = 0; stage < config.parallel.pipeline; ++stage)
    searches.emplace_back(config, model, rates, stage);
  return searches;
}

BudgetError budget_error(const RunConfig& config, const Model& model, const MachineRates& rates,
                         std::vector<CheapestSearch> searches) {
  const RunConfig::MemorySection& memory = config.memory;
  const NeededBudgets needed = find_needed(config, model, rates, std::move(searches));
  if (needed.device) {
    return BudgetError(
        fmt::format("memory.device: {} is too small for this run: the smallest that works is {}{}{}",
                    format_bytes(memory.device), exact(*needed.device), and_others(needed, false),
                    memory.host ? "" : with_a_host(config, model, rates, *needed.device)),
        needed);
  }
  if (needed.host) {
    const bool has_drives = !memory.nvme_path.empty();
    return BudgetError(
        fmt::format(
            "memory.host: {} is too small: this run {} {} on the host beside memory.device: {}{}; give "
            "memory.host at least "
            "that, or memory.device more{}",
            format_bytes(*memory.host), has_drives ? "needs, with all else on the nvme tier," : "keeps",
            exact(*needed.host), format_bytes(memory.device), and_others(needed, true),
            has_drives ? "" : ", or add memory.nvme"),
        needed);
  }
  return BudgetError(fmt::format("memory.nvme.size: {} is too small: this run keeps {} there",
                                 format_bytes(memory.nvme_size), exact(*needed.nvme)),
                     needed);
}

}  // namespace strata
