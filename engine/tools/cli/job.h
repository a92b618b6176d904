// The processes of a command: one, or the ranks that mpirun or srun started together. An error on one rank
// ends all, and reaches the user once. While a job lives, a watchdog looks at what its process waits for. If
// a drive or a file server does not answer, the process says so and leaves at once. It unwinds nothing, since
// the drive may still write to its memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/watchdog.h"
#include "collectives/mpi_world.h"
#include "engine/run/assembly/run_rank.h"
#include "engine/tools/cli/lane_status.h"

namespace strata {

class Job {
 public:
  /// Starts MPI if a launcher started this process as one of several. Throws CommError, and ConfigError if
  /// MPI joins it with none of them.
  Job();

  int rank() const { return world_ ? world_->rank() : 0; }
  int size() const { return world_ ? world_->size() : 1; }
  /// Null for a process of its own.
  Communicator* world() { return world_.get(); }
  RunRank run_rank() { return {world_.get(), local_rank_, local_size_}; }
  /// Rank 0 speaks for all.
  bool is_first() const { return rank() == 0; }
  /// Its place among the job's ranks on this host.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }

  /// How long a wait may go without advancing: of this process for drives and files, and for other ranks.
  void set_watchdog(double seconds);
  /// What the user can do after a hang, until the next call: the end of a sentence. Any thread may call.
  void set_advice(std::string advice);

  /// What SIGUSR2 asks for.
  LaneStatus& status() { return status_; }

  /// Performs `work` on every rank and returns its status. If it throws on one, all end, and the user is
  /// told why, once if the first rank hears of it. Status 2 for a ConfigError, 1 for all else.
  int run(const std::function<int()>& work);
  /// Tells the user and the other ranks of `error`, if nothing was told before. For a thread that fails and
  /// may not come to throw the error, since it waits for others. Any thread may call.
  void tell(const std::exception& error);

 private:
  void find_neighbours();
  [[noreturn]] void leave(const std::string& hang);
  /// "" or "rank 2 (node7): ".
  std::string speaker() const;

  LaneStatus status_;  ///< before anything that starts threads
  std::unique_ptr<MpiWorld> mpi_;
  std::unique_ptr<Communicator> world_;
  int local_rank_ = 0, local_size_ = 1;
  std::atomic<bool> told_ = false;
  std::mutex advice_mutex_;
  std::string advice_;
  Watchdog watchdog_;  ///< last: it speaks of all the others
};

}  // namespace strata
