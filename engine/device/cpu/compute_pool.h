// The compute threads of the CPU device: one TBB arena that all lanes' kernels and the optimizer share, so
// that the process never has more runnable threads than cores. Work is split by the shape of a problem and
// never by the number of threads, which is what keeps results equal for any thread count. Any thread may
// call; the caller works along.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <cstdint>
#include <optional>

#include "engine/base/task_order.h"

namespace strata {

class ComputePool {
 public:
  /// `threads` ≥ 1, the calling thread counted.
  explicit ComputePool(int threads) : arena_(threads) {
    constexpr auto kParallelism = tbb::global_control::max_allowed_parallelism;
    const auto wanted = static_cast<std::size_t>(threads);
    // By default TBB gives no more threads than there are cores. Of several limits the lowest counts, so set
    // none without need.
    if (wanted > tbb::global_control::active_value(kParallelism)) limit_.emplace(kParallelism, wanted);
  }

  int threads() const { return arena_.max_concurrency(); }

  template <typename Work>
  void execute(const Work& work) {
    TaskOrder order;
    order.publish();
    arena_.execute([&] { in_order(order, work); });
    order.observe();
  }

  /// Calls body(first, last, slot) on pieces of [0, count) of at least `grain` items (the last may be
  /// shorter), in any order. `slot` in [0, threads) is the running thread's own index: its scratch. Work of
  /// one grain stays on the calling thread.
  template <typename Body>
  void for_ranges(std::int64_t count, std::int64_t grain, const Body& body) {
    if (count <= 0) return;
    if (count <= grain) {
      body(std::int64_t{0}, count, 0);
      return;
    }
    TaskOrder order;
    order.publish();
    arena_.execute([&] {
      tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, count, static_cast<std::size_t>(grain)),
                        [&](const tbb::blocked_range<std::int64_t>& range) {
                          in_order(order, [&] {
                            body(range.begin(), range.end(), tbb::this_task_arena::current_thread_index());
                          });
                        });
    });
    order.observe();
  }

  /// Calls body(item, slot) for each item of [0, count); items are large enough to be tasks of their own.
  template <typename Body>
  void for_each(std::int64_t count, const Body& body) {
    for_ranges(count, 1, [&](std::int64_t first, std::int64_t last, int slot) {
      for (std::int64_t item = first; item < last; ++item) body(item, slot);
    });
  }

 private:
  std::optional<tbb::global_control> limit_;
  tbb::task_arena arena_;
};

}  // namespace strata
