// A rank that is at work tells the others so, again and again, while they may be waiting for it. So ranks
// wait for a rank that computes for an hour, and not for a rank that does nothing.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <vector>

namespace strata {

/// Used by the thread that makes all calls of MPI.
class MpiHeartbeat {
 public:
  using Clock = std::chrono::steady_clock;

  /// `heard` is set to the latest moment at which any rank was known to be at work, this one too.
  MpiHeartbeat(MPI_Comm comm, std::atomic<Clock::time_point>& heard);
  /// Hears, and tells when it is time, which is `interval_seconds` after it told the last time.
  void beat(double interval_seconds);
  /// Before MPI ends, and when all ranks have met: takes back what nobody will send any more.
  void end();

 private:
  /// Whether all that was told has left.
  bool told();

  MPI_Comm comm_;
  std::atomic<Clock::time_point>& heard_;
  char beat_ = 0, heard_beat_ = 0;
  MPI_Request hearing_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> telling_;
  Clock::time_point last_told_;
};

}  // namespace strata
