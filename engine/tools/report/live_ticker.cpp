#include "engine/tools/report/live_ticker.h"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace strata {

LiveTicker::LiveTicker(std::function<void(std::optional<char> key)> on_tick)
    : on_tick_(std::move(on_tick)), thread_([this] { tick(); }) {}

LiveTicker::~LiveTicker() {
  ending_ = true;
  keys_.end();
  thread_.join();
}

/// A read in the background then fails instead of stopping the process.
void LiveTicker::tick() {
  sigset_t input;
  sigemptyset(&input);
  sigaddset(&input, SIGTTIN);
  pthread_sigmask(SIG_BLOCK, &input, nullptr);
  while (!ending_) {
    const std::optional<char> key = keys_.wait(kSeconds);
    if (!ending_) on_tick_(key);
  }
}

}  // namespace strata
