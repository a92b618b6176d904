// What a task library orders, told to the thread sanitizer: Debian's TBB is not instrumented, so the sanitizer sees neither that a
// task follows the call that made it nor that the call's return follows the task. Every place that splits work over TBB's threads
// says both through one of these. Without the sanitizer it is empty.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <atomic>
#endif

namespace strata {

class TaskOrder {
 public:
#ifdef __SANITIZE_THREAD__
  /// What this thread did before is visible to whoever observes from now on.
  void publish() { count_.fetch_add(1, std::memory_order_acq_rel); }
  void observe() { count_.load(std::memory_order_acquire); }

 private:
  std::atomic<int> count_ = 0;
#else
  void publish() {}
  void observe() {}
#endif
};

/// Runs a task's body between its maker's call and its return.
template <typename Body>
decltype(auto) in_order(TaskOrder& order, const Body& body) {
  struct Publish {
    TaskOrder& order;
    ~Publish() { order.publish(); }
  };
  order.observe();
  const Publish at_the_end{order};
  return body();
}

}  // namespace strata
