#include "engine/run/execute/ranks.h"

#include <stdexcept>
#include <utility>

#include "base/nth.h"

namespace strata {

Ranks::Ranks(Communicator& world, std::vector<RankGroup> groups, const std::set<Channel>& channels,
             const MakeDeviceGroup& make_device_group, const LaneStreams* streams)
    : rank_(world.rank()),
      size_(world.size()),
      outside_(world.split(0, rank_)),
      saving_(world.split(0, rank_)),
      described_(std::move(groups)) {
  for (const Channel& channel : channels) {
    const RankGroup& group = nth(described_, channel.group);
    const auto set = static_cast<int>(group.set_of(rank_)), part = static_cast<int>(group.part_of(rank_));
    const bool sends = part == channel.from, is_in = !channel.is_of_messages() || sends || part == channel.to;
    const int key = channel.is_of_messages() ? (sends ? 0 : 1) : part;
    std::unique_ptr<Communicator> on_host = world.split(is_in ? set : -1, key);
    if (!is_in) continue;
    const Lane lane = channel.is_of_messages() && !sends ? Lane::receive : channel.lane;
    Stream* stream = make_device_group && streams != nullptr ? streams->find(lane) : nullptr;
    groups_[channel] = stream != nullptr && on_host->size() > 1
                           ? make_device_group(std::move(on_host), *stream)
                           : std::move(on_host);
  }
}

std::optional<std::string> Ranks::failure() const {
  if (std::optional<std::string> failure = outside_->failure()) return failure;
  for (const auto& [key, group] : groups_) {
    if (std::optional<std::string> failure = group->failure()) return failure;
  }
  return std::nullopt;
}

Communicator& Ranks::group_of(const Instruction& instruction) {
  const RankGroup& group = nth(described_, instruction.exchange.group);
  const auto found = groups_.find(channel_of(instruction, static_cast<std::int32_t>(group.part_of(rank_))));
  if (found == groups_.end())
    throw std::logic_error("no instruction of this lane exchanges values in such a group");
  return *found->second;
}

}  // namespace strata
