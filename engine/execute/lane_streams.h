// The device's streams, one for each lane that the device works on; the other lanes are the host's own.
#pragma once

#include <array>
#include <memory>

#include "engine/device/device.h"
#include "engine/plan/program.h"

namespace strata {

class LaneStreams {
 public:
  /// `device_exchanges`: the device orders the exchanges between ranks, too.
  explicit LaneStreams(Device& device, bool device_exchanges = false) {
    for (const Lane lane : {Lane::compute, Lane::h2d, Lane::d2h, Lane::comm}) {
      if (lane == Lane::comm && !device_exchanges) continue;
      streams_[static_cast<std::size_t>(lane)] = device.make_stream();
    }
  }

  /// Null for a host lane.
  Stream* find(Lane lane) const { return streams_[static_cast<std::size_t>(lane)].get(); }
  /// REQUIRES: a lane of the device.
  Stream& of(Lane lane) const { return *find(lane); }

 private:
  std::array<std::unique_ptr<Stream>, kLanes.size()> streams_;
};

}  // namespace strata
