// Closes a thing that others still use: nothing new begins, and what has begun ends first.
#pragma once

#include <condition_variable>
#include <mutex>

namespace strata {

/// Any thread may call.
class Gate {
 public:
  /// False if the gate is closed; otherwise leave() has to follow, from whichever thread.
  bool enter() {
    const std::lock_guard lock(mutex_);
    if (!closed_) ++inside_;
    return !closed_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) empty_.notify_all();
  }
  /// Returns when nobody is inside, for good.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    empty_.wait(lock, [this] { return inside_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  int inside_ = 0;
  bool closed_ = false;
};

}  // namespace strata
