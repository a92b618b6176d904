#include "engine/tools/report/train_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/counts.h"
#include "engine/model/model.h"
#include "engine/run/execute/plan_check.h"
#include "engine/tools/report/change_words.h"
#include "engine/tools/report/figures.h"
#include "engine/tools/report/plan_report.h"
#include "engine/tools/report/step_time.h"

namespace strata {
namespace {

Bytes planned_traffic(const TrainReport& report, Link link) {
  return planned_bytes(report.plan, report.result, link);
}

/// Null without a table.
nlohmann::json products_json(const ChosenProducts& products) {
  if (products.table.empty()) return nullptr;
  return {{"table", products.table},
          {"products", products.products},
          {"timed", products.timed},
          {"seconds", products.seconds},
          {"hash", products.hash}};
}

nlohmann::json scratch(const TrainReport& report) {
  nlohmann::json json = scratch_json(report.result.scratch.planned);
  json["measured_bytes"] = report.result.scratch.measured_bytes;
  return json;
}

/// What the run beat of what was measured before it, by more than measuring varies anyway.
std::string beaten_text(const TrainReport& report) {
  constexpr double kMore = 1.01;
  std::string text;
  const auto add = [&](std::string_view what, double MachineRates::*rate) {
    const double before = report.measured ? (*report.measured).*rate : 0, now = report.rates.*rate;
    if (before > 0 && now > kMore * before)
      text += fmt::format("{}{} {:.3e}, not {:.3e}", text.empty() ? "" : "; ", what, now, before);
  };
  add("FLOP/s of products", &MachineRates::flops_per_second);
  add("bytes/s of the host's memory", &MachineRates::memory_bytes_per_second);
  add("to the device", &MachineRates::h2d_bytes_per_second);
  add("to the host", &MachineRates::d2h_bytes_per_second);
  add("from drives", &MachineRates::nvme_read_bytes_per_second);
  add("to drives", &MachineRates::nvme_write_bytes_per_second);
  return text;
}

/// "0.887 s per step by plan.machine; it took 0.4 % more; compute 0.801 s, 0.3 % more; …".
std::string comparison_text(const StepComparison& comparison, bool is_by_profile) {
  const auto& [simulated, measured] = comparison;
  const auto more = [](double planned, double seen) {
    if (planned <= 0) return std::string("not predicted");
    const double percent = 100 * (seen / planned - 1);
    return fmt::format("{:.1f} % {}", std::abs(percent), percent < 0 ? "less" : "more");
  };
  std::string text = fmt::format("{:.3f} s per step by {}; it took {}", simulated.step,
                                 is_by_profile ? "plan.machine" : "rates as the run began",
                                 more(simulated.step, measured.step));
  for (const Lane lane : kLanes) {
    if (measured.by_lane[lane] > 0)
      text += fmt::format("; {} {:.3f} s, {}", name_of(lane), simulated.by_lane[lane],
                          more(simulated.by_lane[lane], measured.by_lane[lane]));
  }
  return text;
}

std::string speed_text(const TrainReport& report) {
  std::string text =
      fmt::format("speed      {} tokens/s, {} per step", grouped(std::llround(report.tokens_per_second())),
                  seconds_text(report.median_step_seconds()));
  if (report.comparison)
    text += fmt::format(" (predicted {})", seconds_text(report.comparison->simulated.step));
  return text + fmt::format(", MFU {:.1f} %", 100 * report.mfu());
}

/// "device 22.79 MiB measured, 22.79 MiB planned; host …"
std::string peaks_text(const TrainReport& report) {
  std::string text;
  for (const Tier tier : used_tiers(report.plan.budgets)) {
    text += fmt::format("{}{} {} measured, {} planned", text.empty() ? "" : "; ", name_of(tier),
                        format_bytes(report.result.measured.count.peak_bytes[tier]),
                        format_bytes(report.plan.arena_bytes(tier)));
  }
  return text;
}

/// What only --verbose shows.
std::string details_text(const TrainReport& report) {
  const TrainResult& result = report.result;
  std::string text;
  const auto line = [&](const std::string& content) { text += content + '\n'; };
  const StepTime time = step_time(result.steps);
  line(fmt::format("steps      the median of {}{}; {:.3f} s of updates after the last one", time.samples,
                   time.overlapped ? "" : ", its updates included", result.steps.back().drain_seconds));
  const std::string beaten = beaten_text(report);
  line(fmt::format("MFU        {:.1f} % = {:.3e} model FLOPs / ({:.3f} s x {:.3e} FLOP/s{}); HFU {:.1f} %",
                   100 * report.mfu(), report.plan.only().flops.model, report.median_step_seconds(),
                   report.rates.flops_per_second, beaten.empty() ? " measured" : "", 100 * report.hfu()));
  if (!beaten.empty())
    line("rates      the run was faster than the machine was as it began, and its rates count: " + beaten);
  if (report.bound.seconds > 0)
    line(fmt::format("at best    {:.3f} s per step, limited by {}; it took {:.2f} times that",
                     report.bound.seconds, name_of(report.bound.binding),
                     time.seconds / report.bound.seconds));
  if (report.comparison) line("predicted  " + comparison_text(*report.comparison, report.is_by_profile));
  for (const Tier tier : used_tiers(report.plan.budgets))
    line("memory     " + tier_text(tier_plan(report.plan, tier), result.measured));
  line(fmt::format("scratch    {}; measured {}", scratch_text(result.scratch.planned),
                   format_bytes(result.scratch.measured_bytes)));
  for (const Link link : used_links(report.plan.training(), report.plan.budgets))
    line("traffic    " + moved_text(link, planned_traffic(report, link), result.measured));
  if (const std::string products = result.products.describe(); !products.empty())
    line("products   " + products);
  return text;
}

}  // namespace

double TrainReport::median_step_seconds() const {
  return step_time(result.steps).seconds;
}

double TrainReport::tokens_per_second() const {
  const double seconds = median_step_seconds();
  return seconds > 0 ? static_cast<double>(plan.training().program.loss_terms) / seconds : 0;
}

double TrainReport::mfu() const {
  const double seconds = median_step_seconds();
  return seconds > 0 ? plan.only().flops.model / (seconds * rates.flops_per_second) : 0;
}

double TrainReport::hfu() const {
  return mfu() * plan.only().flops.executed / plan.only().flops.model;
}

nlohmann::json rank_json(const Plan& plan, const TrainResult& result) {
  return {{"memory", by_tier([&](Tier tier) {
             return nlohmann::json{{"planned_peak_bytes", plan.arena_bytes(tier)},
                                   {"measured_peak_bytes", result.measured.count.peak_bytes[tier]}};
           })},
          {"busy_seconds", busy_json(result.measured)},
          {"differences_from_plan", differences_from_plan(plan, result)}};
}

std::string summary_text(const TrainReport& report, bool is_verbose) {
  const TrainResult& result = report.result;
  if (result.steps.empty())
    return fmt::format("no step was left to train\nstate hash {}\n", result.state_hash);
  std::string text;
  const auto line = [&](const std::string& content) { text += content + '\n'; };
  line(fmt::format(
      "loss       {} -> {} over {} steps{}", loss_text(result.steps.front()), loss_text(result.steps.back()),
      result.steps.size(),
      result.counters.skipped > 0
          ? fmt::format("; {} steps skipped, their gradient norm was not finite{}", result.counters.skipped,
                        std::ranges::any_of(result.steps, &StepReport::spiked) ? " or a spike" : "")
          : ""));
  if (!result.validation.empty()) {
    line(fmt::format("validation {} (step {}) -> {} (step {})", loss_text(result.validation.front()),
                     result.validation.front().step, loss_text(result.validation.back()),
                     result.validation.back().step));
  }
  line(speed_text(report));
  line("memory     " + peaks_text(report));
  if (is_verbose) text += details_text(report);
  for (const std::string& sentence : result.slow_paths) line("slow path  " + sentence);
  for (const std::string& difference : differences_from_plan(report.plan, result))
    line("plan wrong " + difference);
  for (std::size_t rank = 1; rank < report.ranks.size(); ++rank) {
    for (const auto& difference : report.ranks[rank]["differences_from_plan"])
      line(fmt::format("plan wrong on rank {}: {}", rank, difference.get<std::string>()));
  }
  line("state hash " + result.state_hash);
  return text;
}

nlohmann::json train_json(const TrainReport& report) {
  const TrainResult& result = report.result;
  nlohmann::json simulated;
  if (report.comparison) {
    simulated = comparison_json(*report.comparison);
    simulated["by_profile"] = report.is_by_profile;
  }
  return {
      {"loss", list_of(result.steps, &StepReport::loss)},
      {"grad_norm", list_of(result.steps, &StepReport::grad_norm)},
      {"learning_rate", list_of(result.steps, &StepReport::learning_rate)},
      {"validation", validation_json(result.validation)},
      {"samples", samples_json(result.samples)},
      {"steps", result.counters.step},
      {"skipped_steps", result.counters.skipped},
      {"interrupted", result.interrupted},
      {"precision", name_of(report.plan.only().strategy.computes_in())},
      {"tokens_per_second", report.tokens_per_second()},
      {"step_seconds", list_of(result.steps, &StepReport::seconds)},
      {"drain_seconds", list_of(result.steps, &StepReport::drain_seconds)},
      {"bound_seconds", report.bound.seconds},
      {"bound_by", name_of(report.bound.binding)},
      {"simulated", simulated},
      {"mfu", report.mfu()},
      {"hfu", report.hfu()},
      {"flops", {{"model", report.plan.only().flops.model}, {"executed", report.plan.only().flops.executed}}},
      {"machine", rates_json(report.rates)},
      {"machine_measured", rates_json(report.measured.value_or(report.rates))},
      {"memory",
       by_tier([&](Tier tier) { return tier_json(tier_plan(report.plan, tier), result.measured); })},
      {"traffic",
       by_link([&](Link link) { return moved_json(link, planned_traffic(report, link), result.measured); })},
      {"scratch", scratch(report)},
      {"products", products_json(result.products)},
      {"slow_paths", result.slow_paths},
      {"differences_from_plan", differences_from_plan(report.plan, result)},
      {"ranks", report.ranks},
      {"state_hash", result.state_hash},
  };
}

}  // namespace strata
