// Copies between a device and the host that have ended when the call returns, on a stream of their own: for
// who has no lane of the device. One thread.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "engine/device/device.h"

namespace strata {

class DeviceCopy {
 public:
  DeviceCopy(std::unique_ptr<Stream> stream, double watchdog_seconds)
      : watchdog_seconds_(watchdog_seconds), stream_(std::move(stream)), copied_(stream_->make_event()) {}

  /// `name` is for the error.
  void to_host(std::byte* host, const std::byte* device, Bytes bytes, std::string_view name) {
    stream_->copy_to_host(host, device, bytes);
    wait(name);
  }
  void to_device(std::byte* device, const std::byte* host, Bytes bytes, std::string_view name) {
    stream_->copy_to_device(device, host, bytes);
    wait(name);
  }

 private:
  void wait(std::string_view name) {
    stream_->record(*copied_);
    if (copied_->wait(watchdog_seconds_)) return;
    throw DeviceError(fmt::format("a copy of {} did not end within {} s", name, watchdog_seconds_));
  }

  double watchdog_seconds_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> copied_;
};

}  // namespace strata
