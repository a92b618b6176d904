// The device's streams, one for each lane that the device works on; the other lanes are the host's own. What
// goes through those that copy and compute is counted.
#pragma once

#include <memory>

#include "base/enum_array.h"
#include "engine/device/device.h"
#include "engine/plan/program/program.h"
#include "engine/run/execute/metered_stream.h"

namespace strata {

class LaneStreams {
 public:
  /// `device_exchanges`: the device orders the exchanges between ranks, too. Their bytes are their
  /// communicators' to count.
  explicit LaneStreams(Device& device, bool device_exchanges = false) : meter_(std::make_unique<Meter>()) {
    for (const Lane lane : {Lane::compute, Lane::h2d, Lane::d2h})
      streams_[lane] = meter_stream(device.make_stream(), *meter_);
    if (!device_exchanges) return;
    for (const Lane lane : {Lane::comm, Lane::send, Lane::receive, Lane::tensor, Lane::context})
      streams_[lane] = device.make_stream();
  }

  /// Null for a host lane.
  Stream* find(Lane lane) const { return streams_[lane].get(); }
  /// REQUIRES: a lane of the device.
  Stream& of(Lane lane) const { return *find(lane); }
  /// Counts what the streams are given; host lanes tell it what they do.
  Meter& meter() const { return *meter_; }

 private:
  std::unique_ptr<Meter> meter_;
  EnumArray<Lane, std::unique_ptr<Stream>> streams_;
};

}  // namespace strata
