// Ranks that make sure that they are about to do the same: each says what it has, as named values, and if
// they differ all hear what differs, and on which ranks. Every rank of the group calls it in the same order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"

namespace strata {

/// What must be the same on all ranks: a name for the user, and the value, empty if there is none. In the
/// order in which they are named if several differ.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Throws ConfigError with the same sentence on every rank unless all have the same facts. One hash of each
/// is compared; they travel themselves only if that differs. `advice` ends the sentence.
void require_same(Communicator* ranks, const Facts& own, const std::string& advice);

}  // namespace strata
