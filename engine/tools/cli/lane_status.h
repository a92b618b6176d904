// What a running command does now, said when SIGUSR2 asks, also if the run hangs: a thread of its own waits
// for the signal, which no other thread takes, and only looks.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace strata {

class LaneStatus {
 public:
  using Lines = std::vector<std::string>;
  /// REQUIRES: made before any thread that must not be interrupted by the signal.
  LaneStatus();
  ~LaneStatus();
  LaneStatus(const LaneStatus&) = delete;
  LaneStatus& operator=(const LaneStatus&) = delete;

  /// Before each line: "" or "rank 2 (node7): ". Any thread may call.
  void set_speaker(std::string speaker);

  /// While it lives, `describe` says what lanes do. Nothing that it calls may hang.
  class Watch {
   public:
    Watch(LaneStatus& status, std::function<Lines()> describe);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    LaneStatus& status_;
  };

 private:
  void serve();
  std::string text();

  std::mutex mutex_;
  std::function<Lines()> describe_;
  std::string speaker_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace strata
