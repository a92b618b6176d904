// Whether this process is at work: some thread of it computes, or waits for what a watchdog of its own looks
// at. Ranks that wait for this one hear of it, and do not give up.
#pragma once

namespace strata {

/// The calling thread is at work while this lives.
class AtWork {
 public:
  AtWork();
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

  /// Any thread of the process.
  static bool anyone();

  /// The calling thread waits for other ranks, or for other threads, while this lives.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    int depth_;
  };
};

}  // namespace strata
