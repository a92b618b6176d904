#include "tests/collectives_mpi/rank_of_process.h"

namespace strata::test {

bool folds_in_order() {
  return true;
}

std::unique_ptr<Communicator> rank_of_process(std::unique_ptr<Communicator> mpi) {
  return mpi;
}

}  // namespace strata::test
