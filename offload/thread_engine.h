// The engine on pread and pwrite, for systems that forbid io_uring: a pool of threads per queue.
#pragma once

#include <memory>

#include "offload/block_engine.h"

namespace strata {

std::unique_ptr<BlockEngine> make_thread_engine(int slots);

}  // namespace strata
