#include "optim/host_workers.h"

#include <tbb/task_arena.h>

#include "engine/base/task_order.h"

namespace strata {

struct HostWorkers::Arena {
  explicit Arena(int threads) : arena(threads) {}
  tbb::task_arena arena;
};

HostWorkers::HostWorkers(int threads) : arena_(std::make_unique<Arena>(threads)) {}
HostWorkers::~HostWorkers() = default;

void HostWorkers::run(const std::function<void()>& work) {
  TaskOrder order;
  order.publish();
  arena_->arena.execute([&] { in_order(order, work); });
  order.observe();
}

}  // namespace strata
