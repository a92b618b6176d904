// The ranks of a run, as one of them sees them, and the groups in which their programs exchange values. Each
// lane has groups of its own, so that lanes wait for other ranks independently of one another.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "collectives/communicator.h"
#include "engine/device/device.h"
#include "engine/plan/strategy.h"

namespace strata {

/// Makes a group whose exchanges a stream of the device orders, from one of the same ranks on the host, which
/// becomes part of it.
using MakeDeviceGroup =
    std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator> on_host, Stream& stream)>;

class Ranks {
 public:
  /// `world` has mesh.data() ranks, of which neighbours share out the state; all of them call this. `comm` is
  /// the stream of the lane comm where the device has one: then `make_device_group` makes that lane's groups.
  /// Otherwise the host exchanges what is in the device's memory.
  Ranks(Communicator& world, const Mesh& mesh, const MakeDeviceGroup& make_device_group = {},
        Stream* comm = nullptr);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// REQUIRES: a group that `lane` has instructions of.
  Communicator& group(Group group, Lane lane);
  /// All ranks, for whoever is not a lane, and for the lane that saves.
  Communicator& outside() { return *outside_; }
  Communicator& saving() { return *saving_; }

  /// Why no rank can be reached any more, or nothing. Any thread may ask.
  std::optional<std::string> failure() const;

 private:
  int rank_, size_;
  std::unique_ptr<Communicator> outside_, saving_, comm_shard_, comm_replicate_, cpu_shard_, cpu_world_;
};

}  // namespace strata
