#include "engine/tools/cli/lane_status.h"

#include <fmt/format.h>
#include <pthread.h>

#include <csignal>
#include <utility>

#include "base/watchdog.h"
#include "engine/tools/cli/say.h"

namespace strata {
namespace {

sigset_t the_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  return set;
}

}  // namespace

LaneStatus::LaneStatus() {
  const sigset_t set = the_signal();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // for all threads that are started from now on
  thread_ = std::thread([this] { serve(); });
}

LaneStatus::~LaneStatus() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR2);
  thread_.join();
}

void LaneStatus::set_speaker(std::string speaker) {
  const std::lock_guard lock(mutex_);
  speaker_ = std::move(speaker);
}

LaneStatus::Watch::Watch(LaneStatus& status, std::function<Lines()> describe) : status_(status) {
  const std::lock_guard lock(status_.mutex_);
  status_.describe_ = std::move(describe);
}

LaneStatus::Watch::~Watch() {
  const std::lock_guard lock(status_.mutex_);
  status_.describe_ = {};
}

void LaneStatus::serve() {
  const sigset_t set = the_signal();
  for (int signal = 0; sigwait(&set, &signal) == 0 && !ending_;) tell(text());
}

std::string LaneStatus::text() {
  const std::lock_guard lock(mutex_);
  Lines lines = describe_ ? describe_() : Lines{"no lane runs: nothing is trained yet, or no more"};
  for (const auto& [what, seconds] : waits_under_way())
    lines.push_back(fmt::format("{:<8} {}, for {:.0f} s", "files", what, seconds));
  std::string text;
  for (const std::string& line : lines) text += fmt::format("{}now: {}\n", speaker_, line);
  return text;
}

}  // namespace strata
