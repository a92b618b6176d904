// What the lanes of an executor do and wait for, in words.
#include <fmt/format.h>

#include <algorithm>

#include "base/nth.h"
#include "engine/run/execute/executor.h"

namespace strata {
namespace {

/// "0.2 s", "35 s".
std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

}  // namespace

/// "step 12: forward block.3 mb=1".
std::string Executor::name_at(std::int32_t index, std::int64_t round) const {
  const std::int64_t step = rounds_.step_of(nth(program_.program.instructions, index), round);
  return fmt::format("step {}: {}", step + 1, nth(labels_, index));
}

/// What has to be done on other lanes before the lane's instruction may start, and is not: ", behind h2d at
/// copy_to_device block.1". REQUIRES: it waits.
std::string Executor::describe_wait(Lane lane) const {
  const LaneState& state = lanes_[lane];
  std::string text;
  const auto& waits = nth(program_.dependencies.waits, state.index);
  for (const Lane other : kLanes) {
    if (waits[other].position < 0) continue;
    const std::int64_t awaited = needed(program_.dependencies, other, waits[other], state.round, rounds_);
    if (lanes_[other].issued >= awaited) continue;
    const std::int32_t blocker = nth(program_.dependencies.lanes[other], waits[other].position);
    const std::int64_t round = waits[other].previous_step ? state.round - 1 : state.round;
    text +=
        fmt::format("{} {}, {}", text.empty() ? ", behind" : " and", name_of(other), name_at(blocker, round));
  }
  if (text.empty() && !has_its_turn(state.index, state.round))
    return ", behind exchanges between ranks that come before it";
  return text.empty() ? fmt::format(", behind {}, which is a step behind", name_of(Lane::cpu)) : text;
}

/// What of its issued instructions the device has not finished.
std::string Executor::describe_unfinished(Lane lane) const {
  if (streams_.find(lane) == nullptr) return "";
  const std::vector<std::int32_t>& own = program_.dependencies.lanes[lane];
  const auto is_unfinished = [&](std::int32_t index) { return !nth(issued_, index).end->wait(0); };
  const auto begin = static_cast<std::size_t>(lanes_[lane].issued) % own.size();
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::int32_t index = own[(begin + i) % own.size()];
    if (is_unfinished(index)) return fmt::format("; the device is at {}", nth(labels_, index));
  }
  return "";
}

std::string Executor::describe_lane(Lane lane) const {
  const LaneState& state = lanes_[lane];
  const std::string name = fmt::format("{:<8}", name_of(lane));
  if (state.finished || state.index < 0) return fmt::format("{} done{}", name, describe_unfinished(lane));
  const std::string what = name_at(state.index, state.round);
  const double seconds = std::chrono::duration<double>(Clock::now() - state.since).count();
  if (state.waits() && !ready(state.index, state.round)) {
    return fmt::format("{} waits for {} to start {}{}{}", name, seconds_text(seconds), what,
                       describe_wait(lane), describe_unfinished(lane));
  }
  if (state.doing == Doing::nothing) return fmt::format("{} did {}", name, what);
  return fmt::format("{} {}, for {}{}", name, what, seconds_text(seconds), describe_unfinished(lane));
}

std::vector<std::string> Executor::describe_lanes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  for (const Lane lane : kLanes) {
    if (!program_.dependencies.lanes[lane].empty()) lines.push_back(describe_lane(lane));
  }
  return lines;
}

LiveFigures Executor::live() const {
  LiveFigures figures;
  const std::lock_guard lock(mutex_);
  figures.peak_bytes = streams_.meter().peaks();
  figures.busy_seconds = measurements_.busy_seconds;
  for (const Tier tier : kTiers)
    figures.peak_bytes[tier] = std::max(figures.peak_bytes[tier], measurements_.count.peak_bytes[tier]);
  return figures;
}

}  // namespace strata
