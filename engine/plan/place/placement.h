// Where a strategy's buffers live: as much state near the compute as budgets allow, the rest on the tiers
// beyond.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/plan/cost/rates.h"
#include "engine/plan/lower/lower.h"
#include "engine/plan/place/plan_request.h"
#include "engine/plan/place/step_cost.h"
#include "engine/plan/program/program.h"

namespace strata {

/// A strategy with its programs, every buffer on its tier.
struct Placement {
  Strategy strategy;
  Program training;
  OfInterludes<Program> interludes = {};
};

/// The programs that an interlude may have, the preferred one first.
using PlainInterludes = OfInterludes<std::vector<Program>>;

/// A placement, and what it takes.
struct TimedPlacement {
  Placement placement;
  double seconds = 0;  ///< of a step
};

/// Seconds of a step with a placed program.
using Seconds = std::function<double(const Program&)>;

/// The shortest of what `place` gives for numbers in [low, high]. It assumes that one number is the shortest
/// and that numbers further from it take longer. So it asks for two at a time and leaves out a third of the
/// range, until about `tries` have been placed. Numbers that cannot be placed count less. Nothing if none
/// can.
std::optional<TimedPlacement> shortest_by_thirds(
    std::size_t low, std::size_t high, std::size_t tries,
    const std::function<std::optional<Placement>(std::size_t)>& place, const Seconds& seconds_of);

/// What tiers beyond the device would have to hold at least, the smallest over all that was tried and did not
/// fit them. If that much does not hold it either, the next try says more.
struct Shortage {
  Bytes host = kUnlimited, nvme = kUnlimited;
};

/// Finds places for what a strategy moves. What they take of the tiers beyond the device does not depend on
/// what these hold, so it is found out once, with however many budgets it is asked for.
class PlacementSearch {
 public:
  /// State on the device is that of units from `first_unit` up. REQUIRES: the model outlives this.
  PlacementSearch(const Model& model, Strategy strategy, const MachineRates& rates,
                  std::size_t first_unit = 0)
      : model_(&model), strategy_(std::move(strategy)), rates_(rates), first_unit_(first_unit) {}

  /// Gives room that the device has left to state, from the bottom unit up: its update must be done first in
  /// the next step, so it has the least slack to hide a transfer. As many units keep their state as need no
  /// further copies for it. Fewer do if all parameters then stay gathered and a step takes less by the rates,
  /// the traffic of drives included. More do if the tiers beyond the device do not hold the rest. Nothing if
  /// no number fits. REQUIRES: calls differ in the budgets of host and nvme only.
  std::optional<Placement> find(const MemoryRequest& memory, Shortage& shortage);

  /// Places the program with the state of `units` units on the device. Nothing if a tier has no room for the
  /// rest.
  std::optional<Placement> find_with(std::size_t units, const MemoryRequest& memory);

  /// The same with state on the device from the second unit up; nothing if the first is not larger. Where
  /// there is no room for it, or little besides, that of others may do more.
  std::optional<PlacementSearch> above_first() const;

  /// The placement of the shortest step that keeps the state of more units on the device than `found` does. A
  /// step may wait for an update on the host, while further copies run under computing. Looks at about
  /// `tries` numbers of units. Nothing if none of them fits, or if state is wanted elsewhere.
  std::optional<TimedPlacement> with_more_state(const Placement& found, const MemoryRequest& memory,
                                                const Seconds& seconds_of, std::size_t tries);

 private:
  /// Which tier does not hold a placement; nothing: all do.
  struct Attempt {
    std::optional<Placement> placement = {};
    std::optional<Tier> full = {};
  };
  /// At least, as far as it is known.
  struct Needs {
    bool exceeds_device = false;
    Bytes beyond_device = 0, host = 0;
  };

  /// Tries it with the state of `units` units on the device.
  Attempt attempt(std::size_t units, const MemoryRequest& memory, Shortage& shortage);
  /// A number of units whose state the device has room for, and the cost if it is placed at no more.
  struct UnitsWithRoom {
    std::size_t units;
    StepCost cost;
  };
  /// The better first.
  const std::vector<UnitsWithRoom>& units_with_room(Bytes device);

  const Model* model_;
  Strategy strategy_;
  MachineRates rates_;
  std::size_t first_unit_;
  std::map<std::size_t, Needs> needs_;  ///< by units that keep their state on the device
  std::vector<UnitsWithRoom> units_with_room_;
};

/// Plain programs that keep state in the same places, placed within the budgets. Nothing if some tier has no
/// room, and `shortage` then says how much is missing. What stays on the device from use to use takes at most
/// `kept_share` of it, if that is enough; the rest is for what is fetched ahead. Of an interlude's programs
/// the first with room is taken.
std::optional<Placement> place_plain(Program training, PlainInterludes interludes,
                                     const MemoryRequest& memory, double kept_share, Shortage& shortage);

PlainInterludes plain_interludes(const Model& model, const Strategy& strategy, const MemoryRequest& memory);

/// The training program in the form that needs least device memory with the tiers that there are.
Program leanest_training(const Model& model, const Strategy& strategy, const MemoryRequest& memory);

/// The least device memory that `strategy` runs in, interludes included, whatever the tiers beyond hold.
Bytes smallest_device_bytes(const Model& model, const Strategy& strategy, const MemoryRequest& memory);

/// There is no other place for it, or it is wanted there.
bool all_state_on_device(const MemoryRequest& memory);

/// The planner chooses which units keep their state on the device.
bool may_choose_state(const MemoryRequest& memory);

/// What tiers beyond the device hold at once of a program at least, however it is placed. `kept_near` bytes
/// of what it does not keep from step to step may stay on the device instead.
Bytes bytes_beyond_device(const Program& program, Bytes kept_near);

/// `strategy` with the state of `units` units from `first_unit` up on the device and of the others on the
/// host.
Strategy with_device_state(Strategy strategy, std::size_t units, std::size_t first_unit = 0);

/// The first number in [low, high) for which `holds`, or `high`. REQUIRES: it holds for all above one that it
/// holds for.
template <typename Holds>
std::size_t first_number(std::size_t low, std::size_t high, const Holds& holds) {
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const bool is_enough = holds(middle);
    (is_enough ? high : low) = is_enough ? middle : middle + 1;
  }
  return low;
}

/// The same if it is mostly one of the ends, which are then found by one or two questions.
template <typename Holds>
std::size_t first_number_from_ends(std::size_t low, std::size_t high, const Holds& holds) {
  if (low >= high || holds(low)) return low;
  if (low + 1 == high || !holds(high - 1)) return high;
  return first_number(low + 1, high - 1, holds);
}

/// The same if it is mostly one of the lowest: in about twice the logarithm of the distance from `low`.
template <typename Holds>
std::size_t first_number_near_low(std::size_t low, std::size_t high, const Holds& holds) {
  for (std::size_t step = 1; low < high; step *= 2) {
    const std::size_t probe = std::min(low + step, high) - 1;
    if (holds(probe)) return first_number(low, probe, holds);
    low = probe + 1;
  }
  return high;
}

}  // namespace strata
