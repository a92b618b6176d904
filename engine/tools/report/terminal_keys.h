// Keys that are pressed while a run goes on. While it listens, the terminal hands over each key at once and
// does not show it; Ctrl-C and Ctrl-Z do what they always do. However the process ends or is stopped, the
// terminal is as it was before, unless the process is killed. A process in the background leaves the terminal
// alone.
#pragma once

#include <optional>

namespace strata {

class TerminalKeys {
 public:
  /// Listens if standard input and standard error are a terminal. One at a time in a process.
  TerminalKeys();
  ~TerminalKeys();
  TerminalKeys(const TerminalKeys&) = delete;
  TerminalKeys& operator=(const TerminalKeys&) = delete;

  /// The next key that comes within this time; or none, at once if end() was called. By one thread.
  std::optional<char> wait(double seconds);
  /// Whether no more keys can come: the terminal has ended or failed.
  bool is_gone() const { return is_gone_; }
  /// Any thread may call.
  void end();

 private:
  const bool is_terminal_;
  bool is_gone_ = false;  ///< it has ended or failed
  int wake_ = -1;
};

/// The terminal is as it was found, for good. Async-signal-safe.
void restore_terminal();

}  // namespace strata
