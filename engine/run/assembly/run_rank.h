// One process among the ranks of a run, as the assembly of the run sees it.
#pragma once

#include "collectives/communicator.h"

namespace strata {

struct RunRank {
  Communicator* world = nullptr;  ///< all ranks of the run; null for a run of one
  int local_rank = 0;             ///< among the ranks on this host
  int local_size = 1;

  int rank() const { return world == nullptr ? 0 : world->rank(); }
  int size() const { return world == nullptr ? 1 : world->size(); }
  bool is_first() const { return rank() == 0; }
};

}  // namespace strata
