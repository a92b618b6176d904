// A thread beside a run that is watched on a terminal: it tells of each key that is pressed, and of time that
// passes, so that what is drawn is never old.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "engine/tools/report/terminal_keys.h"

namespace strata {

class LiveTicker {
 public:
  static constexpr double kSeconds = 0.5;

  /// `on_tick` is called from the thread.
  explicit LiveTicker(std::function<void(std::optional<char> key)> on_tick);
  /// When it returns, the thread is gone.
  ~LiveTicker();
  LiveTicker(const LiveTicker&) = delete;
  LiveTicker& operator=(const LiveTicker&) = delete;

 private:
  void tick();

  std::function<void(std::optional<char> key)> on_tick_;
  TerminalKeys keys_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

/// Whether the key asks for the panel, or to take it away.
constexpr bool is_panel_key(std::optional<char> key) {
  return key == 'p' || key == 'P' || key == '\t';
}

}  // namespace strata
