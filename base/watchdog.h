// Waits that may never end: for a drive or a device that hangs, for a file server that is gone. Who is in
// such a call can neither leave it nor say so, and memory that it was given must stay. So each is noted while
// it is under way, and a thread of its own, the Watchdog, says which one does not advance. What becomes of
// the process is the program's to decide: libraries only note what they wait for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace strata {

/// What a thread is in.
struct WaitUnderWay {
  std::string what;
  double seconds = 0;  ///< since it advanced, as far as a Watchdog has looked
};
/// All of this moment, the newest first. Waits for nothing that may hang.
std::vector<WaitUnderWay> waits_under_way();

/// One call, or a row of calls for one purpose, that the system may never end. It lives on the stack of the
/// thread that makes them. Notes of one thread may lie within one another: the inner one is told of.
class WatchedWait {
 public:
  /// `describe` is asked by another thread, at any time while this lives: "writing /data/out/x". It waits for
  /// nothing. Nothing is allocated if it captures no more than two pointers.
  explicit WatchedWait(std::function<std::string()> describe);
  ~WatchedWait();
  WatchedWait(const WatchedWait&) = delete;
  WatchedWait& operator=(const WatchedWait&) = delete;

  /// Some of what is waited for has come: its time begins anew.
  void advance();

 private:
  friend std::optional<std::string> find_hang(double passed_seconds, double limit_seconds);
  friend std::vector<WaitUnderWay> waits_under_way();

  std::function<std::string()> describe_;
  double age_seconds_ = 0;  ///< since it advanced
  WatchedWait *previous_ = nullptr, *next_ = nullptr;
};

/// Adds `passed_seconds` to the age of each wait of the process. Returns a sentence on the newest wait that
/// has not advanced for `limit_seconds`. The same wait is told of again only after another `limit_seconds`.
std::optional<std::string> find_hang(double passed_seconds, double limit_seconds);

/// Time that the process did not run in, as when it was stopped by a signal, does not count. One at a time in
/// a process.
class Watchdog {
 public:
  static constexpr double kDefaultSeconds = 900;

  /// `on_hang` is called from the watchdog's thread, with a sentence; it may wait.
  Watchdog(double seconds, std::function<void(const std::string&)> on_hang);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Any thread may call.
  void set_seconds(double seconds);
  double seconds() const;

 private:
  void watch();

  std::function<void(const std::string&)> on_hang_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  double seconds_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace strata
