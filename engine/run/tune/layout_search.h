// The search for a run's layout. All layouts that the run file allows are priced (layout_cost.h). The most
// promising ones are planned and timed (planned_run.h). A layout is not planned if its bound is above the
// best step found. Layouts are planned side by side on the arena that the caller runs in. Results do not
// depend on its threads.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_array.h"
#include "engine/config/run_config.h"
#include "engine/plan/planner/planned_run.h"
#include "engine/run/tune/layout_cost.h"
#include "engine/run/tune/run_layout.h"

namespace strata {

/// A layout's step, planned. Of a long one only as many microbatches are planned as show what one more takes.
struct PlannedLayout {
  double seconds = 0;
  EnumArray<Lane, double> busy = {};  ///< seconds, on the rank that computes longest
  EnumArray<Tier, Bytes> peaks = {};  ///< of the rank that needs most

  /// Seconds of exchanges and messages between ranks.
  double exchanging() const {
    return busy[Lane::comm] + busy[Lane::tensor] + busy[Lane::context] + busy[Lane::send];
  }
};

struct LayoutTrial {
  RunLayout layout;
  LayoutCost cost;
  std::optional<PlannedLayout> planned = {};
  std::string refusal = {};  ///< why it cannot be planned, if it was tried
};

struct LayoutSearch {
  /// Those that were planned, first the one to take, then by their steps, the shortest first; then those that
  /// were not, by their guesses.
  std::vector<LayoutTrial> trials;
  std::size_t planned = 0, refused = 0;
  std::size_t beaten = 0;    ///< whose bounds are above the best step
  std::size_t left_out = 0;  ///< others: they promise less than those planned, or are too large to plan

  const LayoutTrial& best() const { return trials.front(); }
};

/// What the search is told of a run.
struct LayoutInput {
  RunConfig open;  ///< with a precision
  std::int64_t ranks = 1;
  MachineRates rates = {};
  Architecture architecture = {};
  /// Sets budgets that are open.
  std::function<void(RunConfig&, const Model&)> set_budgets = [](RunConfig&, const Model&) {};
  OnPlanning on_planning = [](const std::string&) {};
};

/// Throws ConfigError if no layout fits.
LayoutSearch search_layouts(const LayoutInput& input);

}  // namespace strata
