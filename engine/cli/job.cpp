#include "engine/cli/job.h"

#include <iostream>
#include <vector>

#include "collectives/agreement.h"
#include "collectives/launcher.h"
#include "engine/base/error.h"

namespace strata {

Job::Job() {
  if (!started_by_launcher()) return;
  mpi_ = std::make_unique<MpiWorld>();
  world_ = mpi_->communicator();
  find_neighbours();
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

int Job::run(const std::function<int()>& work) {
  const auto say = [](const std::string& sentence) { std::cerr << "strata: " << sentence << '\n'; };
  try {
    return work();
  } catch (const ConfigError& error) {
    if (is_first()) say(error.what());
    if (world_) world_->abort(error.what());
    return 2;
  } catch (const EndedByRankError& error) {
    if (is_first()) say(error.what());
    return 1;
  } catch (const CommError& error) {  // the rank that does not answer may be the first
    say(speaker() + error.what());
    if (world_) world_->abort(error.what());
    return 1;
  } catch (const std::exception& error) {
    if (is_first()) say(error.what());
    if (world_) world_->abort(error.what());
    return 1;
  }
}

}  // namespace strata
