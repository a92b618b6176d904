// The layout of a run whose plan.search is auto: found before the run is planned, agreed by its ranks, and
// kept when it goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/run/tune/layout_search.h"

namespace strata {

struct RunConfig;

/// Ranks of the run on a node of the machine that it is planned for.
int ranks_of_node(const RunConfig& config);

/// The search for a layout of `ranks` ranks, on the machine that the run is planned for. Throws ConfigError
/// if its profile cannot be read.
LayoutInput layout_input(const RunConfig& open, std::int64_t ranks, OnPlanning on_planning);

/// Searches on all cores. Throws ConfigError if no layout fits.
LayoutSearch find_layout(const LayoutInput& input);

/// What plan.search chose; empty if nothing was open.
struct AgreedLayout {
  std::vector<std::string> settings;  ///< "key=value", which checkpoints keep
  std::string line;                   ///< for the user
};

/// Gives `config` its layout if it leaves that open: of the newest checkpoint if the run goes on with as many
/// ranks, else the one that rank 0 finds. Every rank calls this; a null `world` is a run that is only
/// planned, or of one rank. Throws ConfigError.
AgreedLayout agree_on_layout(RunConfig& config, bool fresh, std::int64_t ranks, Communicator* world,
                             const OnPlanning& on_planning);

}  // namespace strata
