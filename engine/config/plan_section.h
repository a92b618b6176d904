// The plan section of a run file: what the planner may choose.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/choices.h"

namespace strata {

struct PlanSection {
  std::optional<Order> order;  ///< nothing: the planner chooses
  LaneMode lanes = LaneMode::overlapped;
  std::string machine;  ///< file with the machine's rates; empty: nominal ones
  PlanSearch search = PlanSearch::none;
  std::vector<std::string> open = {};  ///< of the keys that are searched for, those that are not given
  friend bool operator==(const PlanSection&, const PlanSection&) = default;
};

}  // namespace strata
