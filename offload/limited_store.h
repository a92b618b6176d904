// A store that is no faster than it is told, to leave a drive's time to others or to study a slower drive.
#pragma once

#include <memory>

#include "base/pacing_clock.h"
#include "offload/store.h"

namespace strata {

/// `store`, whose transfers return when both their bytes and their time have passed. All queues share the
/// time, one transfer after the other.
std::unique_ptr<Store> limit_store(std::unique_ptr<Store> store, const StoreLimit& limit,
                                   PacingClock clock = PacingClock::steady());

}  // namespace strata
