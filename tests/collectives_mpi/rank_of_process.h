// What is tested on the processes of a launcher.
#pragma once

#include "tests/collectives/ranks.h"

namespace strata::test {

/// The communicator under test, of the processes of `mpi`.
std::unique_ptr<Communicator> rank_of_process(std::unique_ptr<Communicator> mpi);

}  // namespace strata::test
