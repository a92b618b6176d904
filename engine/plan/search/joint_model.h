// One of several models that are planned together.
#pragma once

#include <string>

#include "engine/config/run_config.h"
#include "engine/model/model.h"

namespace strata {

/// REQUIRES: what it refers to outlives its planner. The configs' sections memory, device and plan are equal.
struct JointModel {
  std::string name;
  const RunConfig* config = nullptr;
  const Model* model = nullptr;
};

}  // namespace strata
