#include "engine/tools/cli/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/at_work.h"
#include "base/error.h"
#include "base/host_name.h"
#include "collectives/agreement.h"
#include "collectives/launcher.h"
#include "engine/tools/cli/limits.h"
#include "engine/tools/cli/say.h"

namespace strata {

Job::Job() : watchdog_(Watchdog::kDefaultSeconds, [this](const std::string& hang) { leave(hang); }) {
  if (started_by_launcher()) {
    mpi_ = std::make_unique<MpiWorld>();
    world_ = mpi_->communicator();
  }
  if (size() == 1) {
    if (const std::string sentence = why_not_alone(); !sentence.empty()) throw ConfigError(sentence);
  }
  if (!world_) return;
  find_neighbours();
  status_.set_speaker(speaker());
}

void Job::find_neighbours() {
  const std::vector<std::string> hosts = texts_of_ranks(world(), host_name);
  const std::string mine = host_name();
  local_size_ = 0;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] != mine) continue;
    if (static_cast<int>(rank) < this->rank()) ++local_rank_;
    ++local_size_;
  }
}

std::string Job::speaker() const {
  return world_ ? name_as_rank(rank()) + ": " : "";
}

void Job::set_watchdog(double seconds) {
  watchdog_.set_seconds(seconds);
  if (mpi_) mpi_->set_watchdog(seconds);
}

void Job::set_advice(std::string advice) {
  const std::lock_guard lock(advice_mutex_);
  advice_ = std::move(advice);
}

void Job::tell(const std::exception& error) {
  if (told_.exchange(true)) return;
  const bool ended_by_other = dynamic_cast<const EndedByRankError*>(&error) != nullptr;
  const bool names_other = dynamic_cast<const CommError*>(&error) != nullptr && !ended_by_other;
  if (names_other) {  // the rank that does not answer may be the first
    say(speaker() + error.what());
  } else if (is_first()) {
    say(sentence_of(error));
  }
  if (world_ && !ended_by_other) world_->abort(sentence_of(error));
  // What is still under way may belong to the failure, and nobody gains from waiting for it.
  constexpr double kUnwindingSeconds = 60;
  watchdog_.set_seconds(std::min(watchdog_.seconds(), kUnwindingSeconds));
}

void Job::leave(const std::string& hang) {
  constexpr auto kFirstSpeaks = std::chrono::seconds(30), kOthersHear = std::chrono::seconds(5);
  std::string sentence = hang;
  {
    const std::lock_guard lock(advice_mutex_);
    sentence += advice_;
  }
  const bool told = told_.exchange(true);
  if (world_) world_->abort(sentence);
  // Then the first rank says it, and its end is that of all, unless it hangs too.
  if (!is_first()) std::this_thread::sleep_for(kFirstSpeaks);
  if (!told || !is_first()) say(speaker() + sentence);
  if (is_first() && world_) std::this_thread::sleep_for(kOthersHear);
  std::_Exit(1);
}

int Job::run(const std::function<int()>& work) {
  const AtWork at_work;
  try {
    return work();
  } catch (const ConfigError& error) {
    tell(error);
    return 2;
  } catch (const std::exception& error) {
    tell(error);
    return 1;
  }
}

}  // namespace strata
