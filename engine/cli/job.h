// The processes of a command: one, or the ranks that mpirun or srun started together. What goes wrong on one
// of them ends all, and reaches the user once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "collectives/mpi_world.h"

namespace strata {

class Job {
 public:
  /// Starts MPI where a launcher started this process as one of several. Throws CommError.
  Job();

  int rank() const { return world_ ? world_->rank() : 0; }
  int size() const { return world_ ? world_->size() : 1; }
  /// Null for a process of its own.
  Communicator* world() { return world_.get(); }
  /// Rank 0 speaks for all.
  bool is_first() const { return rank() == 0; }
  /// Its place among the job's ranks on this host.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }

  /// Performs `work` on every rank and returns its status. Where it throws on one, all end, and the user is
  /// told why, once where the first rank hears of it. Status 2 for a ConfigError, 1 for all else.
  int run(const std::function<int()>& work);

 private:
  void find_neighbours();
  /// "" or "rank 2 (node7): ".
  std::string speaker() const;

  std::unique_ptr<MpiWorld> mpi_;
  std::unique_ptr<Communicator> world_;
  int local_rank_ = 0, local_size_ = 1;
};

}  // namespace strata
