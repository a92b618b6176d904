#include "optim/host_workers.h"

#include <tbb/task_arena.h>

namespace strata {

struct HostWorkers::Arena {
  explicit Arena(int threads) : arena(threads) {}
  tbb::task_arena arena;
};

HostWorkers::HostWorkers(int threads) : arena_(std::make_unique<Arena>(threads)) {}
HostWorkers::~HostWorkers() = default;
void HostWorkers::run(const std::function<void()>& work) { arena_->arena.execute(work); }

}  // namespace strata
