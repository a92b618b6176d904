#include "base/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace strata {
namespace {

/// All waits of the process, the newest first.
struct Waits {
  std::mutex mutex;
  WatchedWait* newest = nullptr;
};

/// Never destroyed: a thread whose call does not return may outlive main().
Waits& waits() {
  static auto& waits = *std::make_unique<Waits>().release();
  return waits;
}

}  // namespace

WatchedWait::WatchedWait(std::function<std::string()> describe) : describe_(std::move(describe)) {
  Waits& all = waits();
  const std::lock_guard lock(all.mutex);
  next_ = all.newest;
  if (next_ != nullptr) next_->previous_ = this;
  all.newest = this;
}

WatchedWait::~WatchedWait() {
  Waits& all = waits();
  const std::lock_guard lock(all.mutex);
  (previous_ == nullptr ? all.newest : previous_->next_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

void WatchedWait::advance() {
  const std::lock_guard lock(waits().mutex);
  age_seconds_ = 0;
}

std::optional<std::string> find_hang(double passed_seconds, double limit_seconds) {
  Waits& all = waits();
  const std::lock_guard lock(all.mutex);
  std::optional<std::string> hang;
  for (WatchedWait* wait = all.newest; wait != nullptr; wait = wait->next_) {
    wait->age_seconds_ += passed_seconds;
    if (hang || wait->age_seconds_ < limit_seconds) continue;
    hang = fmt::format(
        "{} has not advanced for {:g} s: the drive, file server or device behind it does not answer",
        wait->describe_(), limit_seconds);
    wait->age_seconds_ = 0;
  }
  return hang;
}

std::vector<WaitUnderWay> waits_under_way() {
  Waits& all = waits();
  const std::lock_guard lock(all.mutex);
  std::vector<WaitUnderWay> found;
  for (const WatchedWait* wait = all.newest; wait != nullptr; wait = wait->next_)
    found.push_back({wait->describe_(), wait->age_seconds_});
  return found;
}

Watchdog::Watchdog(double seconds, std::function<void(const std::string&)> on_hang)
    : on_hang_(std::move(on_hang)), seconds_(seconds), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::set_seconds(double seconds) {
  const std::lock_guard lock(mutex_);
  seconds_ = seconds;
}

double Watchdog::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

void Watchdog::watch() {
  constexpr double kLooks = 16, kLongestSeconds = 1;  // a hang is noticed so much of the limit late
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const double pause = std::min(seconds_ / kLooks, kLongestSeconds);
    const Clock::time_point before = Clock::now();
    changed_.wait_for(lock, std::chrono::duration<double>(pause));
    const double passed = std::chrono::duration<double>(Clock::now() - before).count();
    const std::optional<std::string> hang = find_hang(std::min(passed, 2 * pause), seconds_);
    if (!hang) continue;
    lock.unlock();
    on_hang_(*hang);
    lock.lock();
  }
}

}  // namespace strata
