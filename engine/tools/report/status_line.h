// What a long command is doing, on standard error while it does it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace strata {

/// On a terminal one line that is redrawn and erased at the end; elsewhere a line every 30 s. It shows for
/// how long the command runs, so it tells of life while nothing new is shown. A command has one at a time.
class StatusLine {
 public:
  StatusLine();
  /// Shows a line each time `seconds_between` have passed.
  explicit StatusLine(double seconds_between);
  ~StatusLine() { end(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// What the command does now. Any thread may call.
  void show(std::string words);
  /// Erases the line of a terminal; call before anything else is printed.
  void end();
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  void draw_until_end();
  void draw(const std::string& words);

  const bool is_terminal_;
  const double seconds_between_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable ending_;
  bool has_ended_ = false, is_drawn_ = false;
  std::string words_;
  std::thread thread_;  ///< last: it uses all the others
};

}  // namespace strata
