// Work split over threads, on TBB. Its headers stay in task_arena.cpp, which is compiled without the thread
// sanitizer because Debian's libtbb is: what TBB orders, a Task tells the sanitizer, and the work itself
// stays watched.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace strata {

template <typename Signature>
class Task;

/// A reference to work that other threads call until the call that was given it returns. It follows what the
/// giver did before, and what it did comes before what the giver does next; tasks are not ordered among
/// themselves.
template <typename Result, typename... Arguments>
class Task<Result(Arguments...)> {
 public:
  template <typename Work>
  Task(const Work& work)  // NOLINT(google-explicit-constructor): a lambda is passed as one
      : work_(&work), call_(call<Work>) {
    given_.store(true, std::memory_order_release);
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { done_.load(std::memory_order_acquire); }

  [[gnu::always_inline]] Result operator()(Arguments... arguments) const {
    return call_(*this, arguments...);
  }

 private:
  template <typename Work>
  static Result call(const Task& task, Arguments... arguments) {
    struct Done {
      const Task& task;
      ~Done() { task.done_.fetch_add(1, std::memory_order_release); }
    };
    task.given_.load(std::memory_order_acquire);
    const Done done{task};
    return (*static_cast<const Work*>(task.work_))(arguments...);
  }

  const void* work_;
  Result (*call_)(const Task&, Arguments...);
  std::atomic<bool> given_ = false;
  mutable std::atomic<int> done_ = 0;
};

/// body(first, last, slot): items [first, last); `slot` in [0, threads) is the running thread's own index:
/// its scratch.
using RangeTask = Task<void(std::int64_t first, std::int64_t last, int slot)>;

/// Threads that share work. It is split by the shape of a problem and never by the number of threads, which
/// is what keeps results equal for any number. Any thread may call; the caller works along.
class TaskArena {
 public:
  /// `threads` ≥ 1, the calling thread counted; more than there are cores are given too.
  explicit TaskArena(int threads);
  ~TaskArena();

  int threads() const;

  /// Calls `work` on the calling thread, so that what it splits is shared by this arena's threads.
  void execute(const Task<void()>& work);

  /// Calls body on pieces of [0, count) of at least `grain` items (the last may be shorter), in any order.
  /// Work of one grain stays on the calling thread.
  void for_ranges(std::int64_t count, std::int64_t grain, const RangeTask& body);

  /// Calls body(item, slot) for each item of [0, count); items are large enough to be tasks of their own.
  template <typename Body>
  void for_each(std::int64_t count, const Body& body) {
    for_ranges(count, 1, [&](std::int64_t first, std::int64_t last, int slot) {
      for (std::int64_t item = first; item < last; ++item) body(item, slot);
    });
  }

 private:
  struct Threads;
  std::unique_ptr<Threads> threads_;
};

/// As TaskArena::for_ranges, in the arena that the caller runs in.
void for_ranges(std::int64_t count, std::int64_t grain, const RangeTask& body);

/// value(0) + … + value(count - 1), in the arena that the caller runs in, added as a tree that depends on
/// `count` alone.
double sum_of(std::int64_t count, const Task<double(std::int64_t)>& value);

}  // namespace strata
