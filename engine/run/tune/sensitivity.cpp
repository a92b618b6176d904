#include "engine/run/tune/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "base/nth.h"
#include "base/task_arena.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/tune/planning_rates.h"

namespace strata {
namespace {

struct Rate {
  const char* key;
  const char* unit;
  double in_unit;  ///< of what a profile says
  std::function<double&(MachineRates&)> of;
};

std::vector<Rate> rates_of(const MachineRates& now, bool has_ranks, bool has_drives) {
  std::vector<Rate> rates = {
      {"flops_per_second", "TFLOP/s", 1e12, [](MachineRates& r) -> double& { return r.flops_per_second; }},
      {"memory_bytes_per_second", "GB/s", 1e9,
       [](MachineRates& r) -> double& { return r.memory_bytes_per_second; }},
      {"h2d_bytes_per_second", "GB/s", 1e9,
       [](MachineRates& r) -> double& { return r.h2d_bytes_per_second; }},
      {"d2h_bytes_per_second", "GB/s", 1e9,
       [](MachineRates& r) -> double& { return r.d2h_bytes_per_second; }}};
  if (has_drives) {
    rates.push_back({"nvme_read_bytes_per_second", "GB/s", 1e9,
                     [](MachineRates& r) -> double& { return r.nvme_read_bytes_per_second; }});
    rates.push_back({"nvme_write_bytes_per_second", "GB/s", 1e9,
                     [](MachineRates& r) -> double& { return r.nvme_write_bytes_per_second; }});
  }
  if (has_ranks) {
    rates.push_back({"rank_bytes_per_second", "GB/s", 1e9,
                     [](MachineRates& r) -> double& { return r.links.inside_bytes_per_second; }});
    if (now.links.node_ranks > 0)
      rates.push_back({"node_bytes_per_second", "GB/s", 1e9,
                       [](MachineRates& r) -> double& { return r.links.across_bytes_per_second; }});
  }
  return rates;
}

struct Budget {
  const char* key;
  Bytes now;
};

}  // namespace

SimulatedRun simulate(const AdviceInput& input) {
  SimulatedRun result;
  const std::vector<RunConfig> configs = with_change(input, {});
  const RunConfig& first = configs.front();
  result.rates = planning_rates(first);
  result.rates.links = result.rates.rank_links();
  const std::vector<ModelToPlan> models = to_plan(input, configs);
  input.on_planning("planning the run as it is");
  result.run = plan_run(models, input.is_several, result.rates);
  const PlannedRun& run = result.run;
  const double now = run.step.seconds;
  for (const Rate& rate : rates_of(result.rates, first.ranks() > 1, has_drives(run.peaks()))) {
    MachineRates faster = result.rates;
    double& value = rate.of(faster);
    const double more = kMoreOfEach * value;
    value += more;
    if (&value == &faster.flops_per_second) faster.kernels.speed_up(1 + kMoreOfEach);
    const double step = estimate_step(run.plans, first.plan.lanes, faster).seconds;
    result.sensitivities.push_back({rate.key, rate.unit, more / rate.in_unit, std::max(0.0, now - step)});
  }

  std::vector<Budget> budgets;
  if (first.memory.device != kUnlimited) budgets.push_back({"memory.device", first.memory.device});
  if (first.memory.host && *first.memory.host != kUnlimited)
    budgets.push_back({"memory.host", *first.memory.host});
  std::vector<std::optional<double>> steps(budgets.size());
  for_ranges(std::ssize(budgets), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t b = begin; b < end; ++b) {
      const auto& [key, size] = nth(budgets, b);
      const auto bytes = static_cast<Bytes>((1 + kMoreOfEach) * static_cast<double>(size));
      input.on_planning(fmt::format("planning the run with {} of {}", key, format_bytes(bytes)));
      const std::vector<RunConfig> larger =
          with_change(input, {.settings = {fmt::format("{}={}", key, bytes)}});
      const std::optional<PlannedRun> planned = find_run(input, larger, result.rates);
      if (planned) nth(steps, b) = planned->step.seconds;
    }
  });
  for (std::size_t b = 0; b < budgets.size(); ++b) {
    const double more = kMoreOfEach * static_cast<double>(budgets[b].now) / static_cast<double>(GiB);
    if (steps[b])
      result.sensitivities.push_back({budgets[b].key, "GiB", more, std::max(0.0, now - *steps[b])});
  }
  std::ranges::stable_sort(result.sensitivities, std::greater(), &Sensitivity::saved);
  return result;
}

}  // namespace strata
