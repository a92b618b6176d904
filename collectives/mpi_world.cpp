#include "collectives/mpi_world.h"

#include <numeric>
#include <vector>

#include "base/nth.h"
#include "collectives/mpi_communicator.h"

namespace strata {

MpiWorld::MpiWorld(const MpiOptions& options)
    : progress_(std::make_shared<MpiProgress>(options.watchdog_seconds, options.reads_memory)) {
  auto everybody = sized<std::vector<int>>(progress_->size());
  std::iota(everybody.begin(), everybody.end(), 0);
  first_ = std::make_unique<MpiCommunicator>(progress_, std::move(everybody), 0);
}

MpiWorld::~MpiWorld() = default;

std::unique_ptr<Communicator> MpiWorld::communicator() {
  return first_->split(0, first_->rank());
}

void MpiWorld::set_watchdog(double seconds) {
  progress_->set_watchdog(seconds);
}

bool MpiWorld::reads_memory() const {
  return progress_->reads_memory();
}

void MpiWorld::end_all_ranks(int status) {
  progress_->end_all(status);
}

}  // namespace strata
