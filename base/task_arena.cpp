#include "base/task_arena.h"

#include <functional>
#include <optional>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/parallel_reduce.h>
#include <oneapi/tbb/task_arena.h>

namespace strata {

namespace tbb = oneapi::tbb;

using Range = tbb::blocked_range<std::int64_t>;

struct TaskArena::Threads {
  explicit Threads(int threads) : arena(threads) {
    constexpr auto kParallelism = tbb::global_control::max_allowed_parallelism;
    const auto wanted = static_cast<std::size_t>(threads);
    // By default TBB gives no more threads than there are cores. Of several limits the lowest counts, so set
    // none without need.
    if (wanted > tbb::global_control::active_value(kParallelism)) limit.emplace(kParallelism, wanted);
  }

  std::optional<tbb::global_control> limit;
  tbb::task_arena arena;
};

TaskArena::TaskArena(int threads) : threads_(std::make_unique<Threads>(threads)) {}
TaskArena::~TaskArena() = default;

int TaskArena::threads() const {
  return threads_->arena.max_concurrency();
}

void TaskArena::execute(const Task<void()>& work) {
  threads_->arena.execute([&] { work(); });
}

void TaskArena::for_ranges(std::int64_t count, std::int64_t grain, const RangeTask& body) {
  if (count <= 0) return;
  if (count <= grain) return body(0, count, 0);
  threads_->arena.execute([&] { strata::for_ranges(count, grain, body); });
}

void for_ranges(std::int64_t count, std::int64_t grain, const RangeTask& body) {
  tbb::parallel_for(Range(0, count, static_cast<std::size_t>(grain)), [&](const Range& range) {
    body(range.begin(), range.end(), tbb::this_task_arena::current_thread_index());
  });
}

double sum_of(std::int64_t count, const Task<double(std::int64_t)>& value) {
  // The deterministic reduction halves the range down to single items.
  return tbb::parallel_deterministic_reduce(
      Range(0, count, 1), 0.0,
      [&](const Range& range, double sum) {
        for (std::int64_t index = range.begin(); index < range.end(); ++index) sum += value(index);
        return sum;
      },
      std::plus<>());
}

}  // namespace strata
