// The ranks of a run, as one of them sees them, and the groups in which their programs exchange values. Each
// lane has groups of its own, so that lanes wait for other ranks independently of one another.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/device/device.h"
#include "engine/plan/program/channels.h"
#include "engine/run/execute/lane_streams.h"

namespace strata {

/// Makes a group whose exchanges a stream of the device orders, from one of the same ranks on the host, which
/// becomes part of it.
using MakeDeviceGroup =
    std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator> on_host, Stream& stream)>;

class Ranks {
 public:
  /// `world` has the ranks of `groups`; all of them call this, with equal ones and equal channels. If the
  /// device has a stream for a lane, `make_device_group` makes that lane's groups. Otherwise the host
  /// exchanges what is in the device's memory.
  Ranks(Communicator& world, std::vector<RankGroup> groups, const std::set<Channel>& channels,
        const MakeDeviceGroup& make_device_group = {}, const LaneStreams* streams = nullptr);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Where an instruction exchanges values. Of a message, its two ranks: the one that
  /// sends is rank 0.
  Communicator& group_of(const Instruction& instruction);
  /// All ranks: outside() for threads that are no lane, saving() for the lane that saves.
  Communicator& outside() { return *outside_; }
  Communicator& saving() { return *saving_; }

  /// Why no rank can be reached any more, or nothing. Any thread may ask.
  std::optional<std::string> failure() const;

 private:
  int rank_, size_;
  std::unique_ptr<Communicator> outside_, saving_;
  std::vector<RankGroup> described_;
  std::map<Channel, std::unique_ptr<Communicator>> groups_;
};

}  // namespace strata
