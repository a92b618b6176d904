#include "engine/tools/report/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace strata {
namespace {

/// The rank that is busiest, by its busiest lane.
const RankUse& busiest_rank(const std::vector<RankUse>& uses) {
  const auto busiest = [](const RankUse& use) {
    double busy = 0;
    for (const LaneUse& lane : use.lanes) busy = std::max(busy, lane.busy);
    return busy;
  };
  return *std::ranges::max_element(uses, {}, busiest);
}

const LaneUse& bottleneck(const RankUse& use) {
  return *std::ranges::max_element(use.lanes, {}, &LaneUse::busy);
}

double idle_share(const LaneUse& lane) {
  return lane.idle / (lane.busy + lane.idle);
}

}  // namespace

std::string simulate_text(const SimulatedRun& simulated, const std::vector<RankUse>& uses) {
  const PlannedRun& run = simulated.run;
  const RankUse& rank = busiest_rank(uses);
  const LaneUse& busiest = bottleneck(rank);
  std::string text = fmt::format("step     {:.4g} s for {} tokens: {:.0f} tokens/s\n", run.step.seconds,
                                 run.tokens, static_cast<double>(run.tokens) / run.step.seconds);
  std::string waits;
  for (std::size_t w = 0; w < std::min<std::size_t>(3, busiest.waited.size()); ++w)
    waits += fmt::format("{} {} {:.1f} %", w == 0 ? "; it waits for" : ",", name_of(busiest.waited[w].first),
                         100 * busiest.waited[w].second / run.step.seconds);
  text += fmt::format("limit    {} on rank {}, busy {:.1f} % of the step{}\nidle    ", name_of(busiest.lane),
                      rank.rank, 100 * (1 - idle_share(busiest)), waits);
  for (const LaneUse& lane : rank.lanes)
    text += fmt::format("{} {} {:.1f} %", &lane == &rank.lanes.front() ? "" : ",", name_of(lane.lane),
                        100 * idle_share(lane));
  text += '\n';
  for (const Sensitivity& one : simulated.sensitivities)
    text += fmt::format("more     {:<28} {:>8.4g} {:<8} saves {:>8.3g} s, {:.2g} s a {}\n", one.resource,
                        one.more, one.unit, one.saved, one.saved_per_unit(), one.unit);
  return text;
}

nlohmann::json simulate_json(const SimulatedRun& simulated, const std::vector<RankUse>& uses) {
  const PlannedRun& run = simulated.run;
  const auto idle_of = [](const RankUse& use) {
    nlohmann::json idle = nlohmann::json::object();
    for (const LaneUse& lane : use.lanes) idle[std::string(name_of(lane.lane))] = idle_share(lane);
    return idle;
  };
  const RankUse& rank = busiest_rank(uses);
  nlohmann::json json = {{"step_seconds", run.step.seconds},
                         {"tokens_per_second", static_cast<double>(run.tokens) / run.step.seconds},
                         {"bottleneck", {{"rank", rank.rank}, {"lane", name_of(bottleneck(rank).lane)}}},
                         {"idle", idle_of(rank)}};
  for (const RankUse& use : uses) json["ranks"].push_back({{"rank", use.rank}, {"idle", idle_of(use)}});
  for (const Sensitivity& one : simulated.sensitivities)
    json["more"].push_back(
        {{"resource", one.resource}, {"more", one.more}, {"unit", one.unit}, {"saved_seconds", one.saved}});
  return {{"simulated", std::move(json)}};
}

}  // namespace strata
