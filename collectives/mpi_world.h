// The processes that mpirun or srun started together, as communicators. One thread of the process makes all
// calls of MPI, so MPI needs no support for threads, and calls of communicators may come from any thread.
#pragma once

#include <memory>

#include "collectives/communicator.h"

namespace strata {

class MpiProgress;

struct MpiOptions {
  double watchdog_seconds = 900;  ///< a call waits for a message no longer
  /// In long gathers and reductions within a host, if the kernel allows it.
  bool reads_memory = true;
};

/// MPI ends when the world and its communicators are gone. The end waits for the other processes, at most for
/// the watchdog's time, and after a failure for some seconds. If a process is missing then, MPI is left as it
/// is, and the launcher ends the others. So a process has one world in its life. If MPI was initialized
/// before the world, MPI must have MPI_THREAD_MULTIPLE, and it outlives the world.
class MpiWorld {
 public:
  /// Starts MPI. Throws CommError if that fails.
  explicit MpiWorld(const MpiOptions& options = {});
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  /// A new communicator of all ranks; all call it, in the same order as other calls. One thread at a time.
  std::unique_ptr<Communicator> communicator();

  /// From now on a call waits so long for a message. Any thread may call.
  void set_watchdog(double seconds);

  /// Whether ranks of one host read each other's memory.
  bool reads_memory() const;

  /// Ends this process and all others at once, by the launcher: the last resort if ranks may hang. Any
  /// thread may call.
  [[noreturn]] void end_all_ranks(int status);

 private:
  std::shared_ptr<MpiProgress> progress_;
  std::unique_ptr<Communicator> first_;
};

}  // namespace strata
