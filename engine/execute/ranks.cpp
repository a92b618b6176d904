#include "engine/execute/ranks.h"

#include <stdexcept>
#include <utility>

namespace strata {

Ranks::Ranks(Communicator& world, const Mesh& mesh, const MakeDeviceGroup& make_device_group, Stream* comm)
    : rank_(world.rank()), size_(world.size()) {
  const auto everyone = [&] { return world.split(0, rank_); };
  const auto shard = [&] { return world.split(static_cast<int>(mesh.replica(rank_)), rank_); };
  const auto replicate = [&] { return world.split(static_cast<int>(mesh.shard_rank(rank_)), rank_); };
  const auto on_device = [&](std::unique_ptr<Communicator> on_host) {
    return comm != nullptr && on_host->size() > 1 ? make_device_group(std::move(on_host), *comm)
                                                  : std::move(on_host);
  };
  outside_ = everyone();
  saving_ = everyone();
  cpu_world_ = everyone();
  cpu_shard_ = shard();
  comm_shard_ = on_device(shard());
  comm_replicate_ = on_device(replicate());
}

std::optional<std::string> Ranks::failure() const {
  for (const Communicator* group : {outside_.get(), comm_shard_.get(), comm_replicate_.get()}) {
    if (std::optional<std::string> failure = group->failure()) return failure;
  }
  return std::nullopt;
}

Communicator& Ranks::group(Group group, Lane lane) {
  if (lane == Lane::comm) {
    if (group == Group::shard) return *comm_shard_;
    if (group == Group::replicate) return *comm_replicate_;
  } else if (lane == Lane::cpu) {
    if (group == Group::shard) return *cpu_shard_;
    if (group == Group::world) return *cpu_world_;
  }
  throw std::logic_error("no lane exchanges values in such a group");
}

}  // namespace strata
