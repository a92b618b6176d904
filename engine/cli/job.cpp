#include "engine/cli/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <iostream>
#include <vector>

#include "collectives/launcher.h"
#include "engine/base/error.h"

namespace strata {
namespace {

using HostName = std::array<char, HOST_NAME_MAX + 1>;

HostName this_host() {
  HostName name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0) name = {'?'};
  return name;
}

}  // namespace

Job::Job() {
  if (!started_by_launcher()) return;
  mpi_ = std::make_unique<MpiWorld>();
  world_ = mpi_->communicator();
  find_neighbours();
}

void Job::find_neighbours() {
  const HostName mine = this_host();
  host_ = mine.data();
  std::vector<HostName> hosts(static_cast<std::size_t>(size()));
  world_->all_gather(mine.data(), hosts.data(), sizeof(HostName), Element::byte);
  local_size_ = 0;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] != mine) continue;
    if (static_cast<int>(rank) < this->rank()) ++local_rank_;
    ++local_size_;
  }
}

std::string Job::speaker() const {
  return world_ ? fmt::format("rank {} on {}: ", rank(), host_) : "";
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
