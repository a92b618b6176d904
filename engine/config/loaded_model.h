// Internal to config: a model of a run on its way from the run file, what it is checked for beside the
// others, and what it differs from them in. Plain values.
#pragma once

#include <vector>

#include "engine/config/loader.h"
#include "engine/config/run_models.h"

namespace strata {

struct LoadedModel {
  NamedRun model;
  std::vector<Given> given;
};

/// What models must not have in common, and what they must. Throws ConfigError.
void check_models(const std::vector<LoadedModel>& models, const Loader& run);

/// Fills in the overrides; `run` is the run that the models are of.
void add_overrides(std::vector<LoadedModel>& models, const RunModels& run);

}  // namespace strata
