#include "engine/execute/ranks.h"

#include <set>
#include <stdexcept>

namespace strata {
namespace {

/// Groups and the lanes that exchange values in them, in an order that all ranks share.
std::set<std::pair<std::int32_t, Lane>> exchanging_groups(const Plan& plan) {
  std::set<std::pair<std::int32_t, Lane>> result;
  const auto add = [&](const Program& program) {
    for (const Instruction& instruction : program.instructions) {
      if (instruction.exchange.sent > 0) result.emplace(instruction.exchange.group, instruction.lane);
    }
  };
  add(plan.training.program);
  if (plan.validation) add(plan.validation->program);
  return result;
}

}  // namespace

Ranks::Ranks(Communicator& world, const Plan& plan, const MakeDeviceGroup& make_device_group, Stream* comm)
    : rank_(world.rank()),
      size_(world.size()),
      outside_(world.split(0, rank_)),
      saving_(world.split(0, rank_)) {
  for (const auto& [number, lane] : exchanging_groups(plan)) {
    const RankGroup& group = plan.training.program.groups[static_cast<std::size_t>(number)];
    std::unique_ptr<Communicator> on_host =
        world.split(static_cast<int>(group.set_of(rank_)), static_cast<int>(group.part_of(rank_)));
    const bool is_on_device = comm != nullptr && lane == Lane::comm && on_host->size() > 1;
    groups_[{number, lane}] =
        is_on_device ? make_device_group(std::move(on_host), *comm) : std::move(on_host);
  }
}

std::optional<std::string> Ranks::failure() const {
  if (std::optional<std::string> failure = outside_->failure()) return failure;
  for (const auto& [key, group] : groups_) {
    if (std::optional<std::string> failure = group->failure()) return failure;
  }
  return std::nullopt;
}

Communicator& Ranks::group(std::int32_t group, Lane lane) {
  const auto found = groups_.find({group, lane});
  if (found == groups_.end())
    throw std::logic_error("no instruction of this lane exchanges values in such a group");
  return *found->second;
}

}  // namespace strata
