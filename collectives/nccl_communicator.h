// Ranks that are GPUs: NCCL behind the communicator's interface. Calls are issued to a stream and return;
// their values are there when what the stream does next begins. NCCL does not tell what it sends:
// sent_bytes() adds what sent_bytes.h says for each call. libnccl is loaded when the first communicator is
// made, so programs start without it.
#pragma once

#include <memory>

#include "collectives/communicator.h"

struct CUstream_st;  // what cudaStream_t points to

namespace strata {

struct NcclOptions {
  CUstream_st* stream = nullptr;  ///< of the calling thread's current device
  /// For making groups, and for NCCL to issue a call. What runs on the stream is watched by those who wait
  /// for its events.
  double watchdog_seconds = 900;
};

/// The ranks of `host`, which becomes part of it: host memory is what NCCL's start and the news of a failure
/// travel through. All ranks call it. Throws CommError if NCCL is missing or fails.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> host,
                                                     const NcclOptions& options);

}  // namespace strata
