#include "collectives/mpi_heartbeat.h"

#include "base/at_work.h"

namespace strata {
namespace {

/// The other tag of the communicator is that of failures.
constexpr int kTag = 1;

}  // namespace

MpiHeartbeat::MpiHeartbeat(MPI_Comm comm, std::atomic<Clock::time_point>& heard)
    : comm_(comm), heard_(heard), last_told_(Clock::now()) {
  MPI_Irecv(&heard_beat_, 1, MPI_CHAR, MPI_ANY_SOURCE, kTag, comm_, &hearing_);
}

bool MpiHeartbeat::told() {
  int done = 0;
  MPI_Testall(static_cast<int>(telling_.size()), telling_.data(), &done, MPI_STATUSES_IGNORE);
  return done != 0;
}

void MpiHeartbeat::beat(double interval_seconds) {
  int heard = 0;
  MPI_Test(&hearing_, &heard, MPI_STATUS_IGNORE);
  const Clock::time_point now = Clock::now();
  if (heard != 0) {
    heard_ = now;
    MPI_Irecv(&heard_beat_, 1, MPI_CHAR, MPI_ANY_SOURCE, kTag, comm_, &hearing_);
  }
  if (now - last_told_ < std::chrono::duration<double>(interval_seconds) || !AtWork::anyone() || !told())
    return;
  heard_ = last_told_ = now;
  telling_.clear();
  int rank = 0, size = 0;
  MPI_Comm_rank(comm_, &rank);
  MPI_Comm_size(comm_, &size);
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    MPI_Isend(&beat_, 1, MPI_CHAR, other, kTag, comm_, &telling_.emplace_back());
  }
}

void MpiHeartbeat::end() {
  if (hearing_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&hearing_);
  MPI_Wait(&hearing_, MPI_STATUS_IGNORE);
}

}  // namespace strata
