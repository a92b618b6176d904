// The device's streams, one for each lane that the device works on; the other lanes are the host's own.
#pragma once

#include <array>
#include <memory>

#include "engine/device/device.h"
#include "engine/plan/program.h"

namespace strata {

class LaneStreams {
 public:
  explicit LaneStreams(Device& device) {
    for (const Lane lane : {Lane::compute, Lane::h2d, Lane::d2h}) {
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
