#include "engine/tools/report/search_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"

namespace strata {
namespace {

double tokens_of(const RunConfig& config) {
  return static_cast<double>(config.train.batch) * static_cast<double>(config.data.sequence_length);
}

/// Seconds that a step is made of, on the rank that computes longest.
struct Parts {
  double passes, again, waiting;
};

Parts parts_of(const LayoutTrial& trial) {
  const double computing = trial.planned->busy[Lane::compute];
  return {.passes = std::min(trial.cost.passes, computing),
          .again = std::max(0.0, computing - trial.cost.passes),
          .waiting = std::max(0.0, trial.planned->seconds - computing)};
}

/// Names what takes longest beyond the best one's; empty if nothing does.
std::string cause_of_waiting(const LayoutTrial& one, const LayoutTrial& best) {
  const std::array<std::pair<std::string_view, double>, 7> causes = {
      {{"the pipeline's bubble", one.cost.bubble - best.cost.bubble},
       {"exchanges within layers", one.planned->busy[Lane::tensor] - best.planned->busy[Lane::tensor]},
       {"exchanges of sequences", one.planned->busy[Lane::context] - best.planned->busy[Lane::context]},
       {"gradients and parameters between ranks",
        one.planned->busy[Lane::comm] - best.planned->busy[Lane::comm]},
       {"messages between stages", one.planned->busy[Lane::send] - best.planned->busy[Lane::send]},
       {"copies to and from the device",
        std::max(one.planned->busy[Lane::h2d] - best.planned->busy[Lane::h2d],
                 one.planned->busy[Lane::d2h] - best.planned->busy[Lane::d2h])},
       {"drives", one.planned->busy[Lane::read] + one.planned->busy[Lane::write] -
                      best.planned->busy[Lane::read] - best.planned->busy[Lane::write]}}};
  const auto& [name, seconds] =
      *std::ranges::max_element(causes, {}, &std::pair<std::string_view, double>::second);
  return seconds > 0 ? fmt::format(" for {}", name) : "";
}

/// Why a layout's step is longer than the best one's.
std::string reason(const LayoutTrial& one, const LayoutTrial& best) {
  const Parts own = parts_of(one), least = parts_of(best);
  const double passes = own.passes - least.passes, again = own.again - least.again,
               waiting = own.waiting - least.waiting;
  if (one.planned->seconds <= best.planned->seconds) return "";
  if (waiting >= std::max(passes, again))
    return fmt::format("waits {:.3g} s more{}", waiting, cause_of_waiting(one, best));
  if (again >= passes) return fmt::format("makes again {:.3g} s more", again);
  return fmt::format("computes {:.3g} s more: stages or kernels", passes);
}

}  // namespace

std::string search_text(const LayoutSearch& search, const LayoutInput& input) {
  const double tokens = tokens_of(input.open);
  std::string text = fmt::format("{:>9} {:>10} {:>7} {:>10} {:>10} {:>9}  {}\n", "step", "tokens/s", "waits",
                                 "device", "host", "exchanges", "layout");
  for (std::size_t i = 0; i < std::min(search.planned, kShownLayouts); ++i) {
    const LayoutTrial& one = search.trials[i];
    const auto peak = [&](Tier tier) { return format_bytes(one.planned->peaks[tier]); };
    const std::string why = reason(one, search.best());
    text +=
        fmt::format("{:>7.3g} s {:>10.4g} {:>5.1f} % {:>10} {:>10} {:>7.3g} s  {}{}\n", one.planned->seconds,
                    tokens / one.planned->seconds, 100 * parts_of(one).waiting / one.planned->seconds,
                    peak(Tier::device), peak(Tier::host), one.planned->exchanging(), describe(one.layout),
                    why.empty() ? "" : fmt::format("\n{:{}}{}", "", kLayoutColumn, why));
  }
  return text + fmt::format(
                    "of {} layouts {} were planned, {} do not fit, {} cannot be as short as the best "
                    "whatever their plan, "
                    "and {} were left out: they promise less, or are too large to plan\n",
                    search.trials.size(), search.planned, search.refused, search.beaten, search.left_out);
}

std::string search_settings(const LayoutSearch& search, const LayoutInput& input) {
  std::string text = "take it with";
  for (const std::string& setting : settings_of(search.best().layout, input.open))
    text += fmt::format(" --set {}", setting);
  return text + '\n';
}

nlohmann::json search_json(const LayoutSearch& search, const LayoutInput& input) {
  nlohmann::json layouts = nlohmann::json::array();
  for (std::size_t i = 0; i < search.planned; ++i) {
    const LayoutTrial& one = search.trials[i];
    nlohmann::json peaks = nlohmann::json::object(), busy = nlohmann::json::object();
    for (const Tier tier : kTiers) peaks[std::string(name_of(tier))] = one.planned->peaks[tier];
    for (const Lane lane : kLanes) {
      if (one.planned->busy[lane] > 0) busy[std::string(name_of(lane))] = one.planned->busy[lane];
    }
    layouts.push_back({{"layout", describe(one.layout)},
                       {"settings", settings_of(one.layout, input.open)},
                       {"step_seconds", one.planned->seconds},
                       {"tokens_per_second", tokens_of(input.open) / one.planned->seconds},
                       {"bound_seconds", one.cost.bound()},
                       {"guess_seconds", one.cost.guess()},
                       {"pass_seconds", one.cost.passes},
                       {"bubble_seconds", one.cost.bubble},
                       {"peak_bytes", peaks},
                       {"busy_seconds", busy},
                       {"why_slower", reason(one, search.best())}});
  }
  return {{"best", layouts.front()},
          {"layouts", std::move(layouts)},
          {"counts",
           {{"all", search.trials.size()},
            {"planned", search.planned},
            {"do_not_fit", search.refused},
            {"beaten_by_bound", search.beaten},
            {"left_out", search.left_out}}}};
}

}  // namespace strata
