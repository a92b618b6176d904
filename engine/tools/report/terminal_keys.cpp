#include "engine/tools/report/terminal_keys.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>

namespace strata {
namespace {

constexpr int kTerminal = STDIN_FILENO;
constexpr std::array kEndingSignals = {SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

enum class Mode : int { found, busy, keys, for_good };
std::atomic<Mode> mode = Mode::found;
static_assert(std::atomic<Mode>::is_always_lock_free, "signal handlers use it");
termios as_found;  ///< valid if mode is keys

/// A terminal that does not control this process knows no foreground: it refuses nobody.
bool is_in_foreground() {
  const pid_t foreground = ::tcgetpgrp(kTerminal);
  return foreground == ::getpgrp() || (foreground < 0 && errno == ENOTTY);
}

/// A process that has come to the background meanwhile is not stopped for it.
void set_terminal(const termios& settings) {
  sigset_t output, before;
  sigemptyset(&output);
  sigaddset(&output, SIGTTOU);
  pthread_sigmask(SIG_BLOCK, &output, &before);
  ::tcsetattr(kTerminal, TCSANOW, &settings);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// A signal may come at any moment: it finds mode keys before the terminal is touched, and if it came between
/// the two, what it has restored is restored once more.
void hand_over_keys() {
  Mode expected = Mode::found;
  if (!is_in_foreground() || !mode.compare_exchange_strong(expected, Mode::busy)) return;
  termios settings = {};
  const bool is_known = ::tcgetattr(kTerminal, &settings) == 0;
  if (is_known) as_found = settings;
  settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  settings.c_cc[VMIN] = 1;
  settings.c_cc[VTIME] = 0;
  expected = Mode::busy;
  if (!mode.compare_exchange_strong(expected, is_known ? Mode::keys : Mode::found) || !is_known) return;
  set_terminal(settings);
  if (mode != Mode::keys) set_terminal(as_found);
}

/// Handlers of signals call it, so it leaves errno alone.
void restore(Mode then) {
  const int error = errno;
  const Mode before = mode.exchange(then);
  if (before == Mode::for_good) mode = Mode::for_good;
  if (before == Mode::keys && is_in_foreground()) set_terminal(as_found);
  errno = error;
}

void end_by(int signal) {
  restore_terminal();
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_NODEFER;
  ::sigaction(signal, &action, nullptr);
}

/// Stops as without a handler; when it goes on, wait() sees to the terminal.
void stop_by(int signal) {
  restore(Mode::found);
  const int error = errno;
  set_handler(signal, SIG_DFL);
  ::raise(signal);
  set_handler(signal, stop_by);
  errno = error;
}

bool is_default(int signal) {
  struct sigaction action = {};
  return ::sigaction(signal, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
         action.sa_handler == SIG_DFL;
}

}  // namespace

void restore_terminal() {
  restore(Mode::for_good);
}

TerminalKeys::TerminalKeys()
    : is_terminal_(::isatty(kTerminal) != 0 && ::isatty(STDERR_FILENO) != 0),
      wake_(::eventfd(0, EFD_CLOEXEC)) {
  if (!is_terminal_) return;
  for (const int signal : kEndingSignals)
    if (is_default(signal)) set_handler(signal, end_by);
  if (is_default(SIGTSTP)) set_handler(SIGTSTP, stop_by);
}

TerminalKeys::~TerminalKeys() {
  restore(Mode::found);
  ::close(wake_);
}

void TerminalKeys::end() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

/// Nothing is read in the background, which would stop the process, nor when the terminal is gone.
std::optional<char> TerminalKeys::wait(double seconds) {
  const bool reads = is_terminal_ && !is_gone_ && mode != Mode::for_good && is_in_foreground();
  if (reads) hand_over_keys();
  std::array<pollfd, 2> ends = {pollfd{wake_, POLLIN, 0}, pollfd{reads ? kTerminal : -1, POLLIN, 0}};
  if (::poll(ends.data(), ends.size(), static_cast<int>(seconds * 1000)) <= 0) return std::nullopt;
  if (ends[0].revents != 0 || mode != Mode::keys || !is_in_foreground()) return std::nullopt;
  char key = 0;
  if (ends[1].revents == 0) return std::nullopt;
  errno = 0;
  if (::read(kTerminal, &key, 1) == 1) return key;
  // A process that has just come to the background is refused, too.
  is_gone_ = errno != EINTR && is_in_foreground();
  return std::nullopt;
}

}  // namespace strata
