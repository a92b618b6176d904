// The engine on io_uring: a ring per queue, submitted to and reaped by the one thread that made it. No
// polling modes: they buy latency with a core, and a training step has none to spare.
#pragma once

#include <memory>
#include <string>

#include "offload/block_engine.h"
#include "offload/io_faults.h"

namespace strata {

/// Throws IoError if the system gives no ring.
std::unique_ptr<BlockEngine> make_uring_engine(int slots);

/// Why rings cannot be used here, as an errno; 0: they can. Makes one and drops it.
int uring_error(IoFaults* faults);

/// That error for a person, with the system's setting if that is the cause.
std::string explain_uring_error(int error);

}  // namespace strata
