// A stream whose copies and kernels are counted as they are issued, and then performed by the stream that it
// stands before.
#pragma once

#include <memory>

#include "engine/device/device.h"
#include "engine/run/execute/meter.h"

namespace strata {

/// `meter` outlives the stream.
std::unique_ptr<Stream> meter_stream(std::unique_ptr<Stream> stream, Meter& meter);

}  // namespace strata
