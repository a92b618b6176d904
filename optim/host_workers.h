// The threads of a host lane: a TBB arena that the optimizer's functions run in, apart from the device's own.
#pragma once

#include <functional>
#include <memory>

namespace strata {

class HostWorkers {
 public:
  /// `threads` ≥ 1, the calling one included.
  explicit HostWorkers(int threads);
  ~HostWorkers();
  HostWorkers(const HostWorkers&) = delete;
  HostWorkers& operator=(const HostWorkers&) = delete;

  /// Runs `work` so that its parallel loops use these threads; returns when it has finished.
  void run(const std::function<void()>& work);

 private:
  struct Arena;
  std::unique_ptr<Arena> arena_;
};

}  // namespace strata
