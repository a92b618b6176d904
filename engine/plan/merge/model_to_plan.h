// A model of a run, for the planner of all of them.
#pragma once

#include <cstdint>
#include <string>

#include "engine/plan/place/plan_request.h"

namespace strata {

struct Model;

/// REQUIRES: the model outlives its planner. Of all models of a run the requests' memory and lanes are equal.
struct ModelToPlan {
  std::string name;
  const Model* model = nullptr;
  PlanRequest request;
  std::int64_t steps = 1;
  /// What its plans depend on, as text. Models with the same text differ in numbers alone, such as the
  /// learning rate.
  std::string shape = {};
  std::string weights = {};  ///< the folder that has its first weights, resolved; empty: they are random
};

}  // namespace strata
