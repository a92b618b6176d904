// Internal to config: the keys that belong to a run file and to no model of it: the list of models, the
// sweep, the selection. They stand in a table as those of a model do (keys.h), which documents and reads
// them. And which of a model's keys a run of several models has once. Immutable; read from any thread.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "engine/config/keys.h"
#include "engine/config/selection.h"

namespace strata {

/// REQUIRES: it is not assigned to, since yaml-cpp's assignment changes every copy of a node.
struct RunSections {
  YAML::Node models, sweep;  ///< as the file gives them; run_models.cpp reads what is in them
  Selection select;
};

using RunKey = KeyOf<RunSections>;

const std::vector<RunKey>& run_keys();
const std::vector<Section>& run_sections();

/// Whether all models of a run have this key from the run: budgets, the machine, what waits for what.
bool is_of_run(const std::string& path);

}  // namespace strata
