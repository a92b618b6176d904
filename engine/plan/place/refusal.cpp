#include "engine/plan/place/refusal.h"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "engine/model/model.h"

namespace strata {
namespace {

/// Raises `budget`, one of `memory`, to what tries that fail say they are short of, until one succeeds.
/// Nothing if it was enough.
std::optional<Bytes> raise(Bytes& budget, Bytes Shortage::*said, const MemoryRequest& memory,
                           CheapestSearch& search) {
  std::optional<Bytes> raised;
  for (;;) {
    Shortage shortage;
    if (search.find(memory, shortage)) return raised;
    const Bytes need = shortage.*said;
    if (need == kUnlimited || need <= budget)
      throw std::logic_error("the smallest budgets that a run needs do not hold it");
    raised = budget = need;
  }
}

/// The device's first, then what the host needs beside it, then the drives. Each is the smallest with those
/// before it, however much those behind it hold. `searches` are those of `request`.
NeededBudgets find_needed(PlanRequest request, const Model& model, const MachineRates& rates,
                          std::vector<CheapestSearch> searches) {
  NeededBudgets needed;
  MemoryRequest& memory = request.memory;
  const Bytes device = smallest_device_bytes(request, model);
  const bool is_too_small = memory.device < device;
  if (is_too_small) needed.device = memory.device = device;
  if (!memory.host) return needed;
  if (is_too_small) searches = searches_of(request, model, rates);
  const auto raise_for_all = [&](Bytes& budget, Bytes Shortage::*said) {
    std::optional<Bytes> raised;
    for (CheapestSearch& search : searches) {
      if (const std::optional<Bytes> of_stage = raise(budget, said, memory, search)) raised = of_stage;
    }
    return raised;
  };
  const std::optional<Bytes> drives = memory.nvme;
  if (drives) memory.nvme = kUnlimited;
  needed.host = raise_for_all(*memory.host, &Shortage::host);
  memory.nvme = drives;
  if (drives) needed.nvme = raise_for_all(*memory.nvme, &Shortage::nvme);
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
std::string with_a_host(PlanRequest request, const Model& model, const MachineRates& rates, Bytes alone) {
  request.memory.host = 1;
  const NeededBudgets needed = find_needed(request, model, rates, searches_of(request, model, rates));
  if (!needed.device) return fmt::format("; or add memory.host: {}", exact(*needed.host));
  if (*needed.device >= alone) return "";
  return fmt::format("; with memory.host: {} it would be {}", exact(*needed.host), exact(*needed.device));
}

}  // namespace

std::vector<CheapestSearch> searches_of(const PlanRequest& request, const Model& model,
                                        const MachineRates& rates) {
  std::vector<CheapestSearch> searches;
  searches.reserve(static_cast<std::size_t>(request.stages()));
  for (std::int32_t stage = 0; stage < request.stages(); ++stage)
    searches.emplace_back(request, model, rates, stage);
  return searches;
}

BudgetError budget_error(const PlanRequest& request, const Model& model, const MachineRates& rates,
                         std::vector<CheapestSearch> searches) {
  const MemoryRequest& memory = request.memory;
  const NeededBudgets needed = find_needed(request, model, rates, std::move(searches));
  if (needed.device) {
    return BudgetError(
        fmt::format("memory.device: {} is too small for this run: the smallest that works is {}{}{}",
                    format_bytes(memory.device), exact(*needed.device), and_others(needed, false),
                    memory.host ? "" : with_a_host(request, model, rates, *needed.device)),
        needed);
  }
  if (needed.host) {
    const bool has_drives = memory.nvme.has_value();
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
                                 format_bytes(*memory.nvme), exact(*needed.nvme)),
                     needed);
}

}  // namespace strata
