// The arithmetic a device offers to a lane. Model code is written once against this interface. The CPU and
// CUDA devices implement it fast. engine/device/reference implements it plainly and is the oracle of both.
//
// Rules for every implementation:
// - Deterministic: the same operands give the same bits, for any number of threads. Sums have a fixed order.
// - Working memory is reserve_scratch()'s. A run calls it once with the bytes of scratch_of_run()
//   (engine/plan/lower/run_scratch.h), and then no call takes memory for data. A call that needs more takes
//   it and keeps it, up to the bytes that the device's ScratchRules (scratch_rules.h) have for the call. The
//   reference alone takes a row of memory in each call.
// - Libraries beneath compile each shape when it is first seen, keep that, and make small objects per call.
//   These are some KiB on the host, and on a GPU the code that they load (kLibraryCodeBytes in
//   cuda/scratch_rules.h).
// - One Kernels object serves one lane: its calls come from one thread at a time, and complete in order.
#pragma once

#include "engine/device/kernel_call.h"
#include "engine/device/scratch.h"

namespace strata {

class Kernels {
 public:
  virtual ~Kernels() = default;

  /// Sets up working memory for calls that need no more than this. Before such calls are made.
  virtual void reserve_scratch(const ScratchBytes& /*largest*/) {}
  /// The working memory that these kernels hold now; by then nothing was given back.
  virtual Bytes scratch_bytes() const { return 0; }

  virtual void run(const KernelCall& call) = 0;
};

}  // namespace strata
