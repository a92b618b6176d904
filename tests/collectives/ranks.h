// The ranks that a collective test runs on. Each test program says how they are made: as threads, or as the
// processes of a launcher.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/communicator.h"

namespace strata::test {

class Ranks {
 public:
  virtual ~Ranks() = default;
  /// Calls body as every rank at once, or as the one that this process is; an error that escapes it fails the
  /// test.
  virtual void run(const std::function<void(Communicator&)>& body) = 0;
};

/// The numbers of ranks that this program can have.
std::vector<int> rank_counts();

/// Whether reductions fold the ranks in their order, to the bit. Otherwise only within what any order rounds.
bool folds_in_order();

/// `watchdog_seconds` is of no effect if the launch has decided it.
std::unique_ptr<Ranks> make_ranks(int count, double watchdog_seconds = 60);

}  // namespace strata::test
