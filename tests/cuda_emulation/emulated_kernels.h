// The CUDA device's kernels, compiled for the CPU and run by tests/cuda_emulation on host memory: what a GPU
// would compute, on a machine without one. Products, which are cuBLASLt's on a GPU, are the reference's, of
// operands that the device's kernels round.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/device/cuda/context.h"
#include "engine/device/reference/reference_kernels.h"

namespace strata {

/// Every request gets memory of its own of just that size, all NaN, so that reading what was not written and
/// writing past the end show.
class EmulatedScratch final : public CudaScratch {
 public:
  std::byte* at_least(Bytes bytes) override;
  Bytes largest() const { return largest_; }

 private:
  Bytes largest_ = 0;
  std::unique_ptr<std::byte, void (*)(std::byte*)> memory_{nullptr, nullptr};
};

class EmulatedKernels final : public Kernels {
 public:
  /// The most that a call has asked for.
  Bytes scratch_bytes() const override { return scratch_.largest(); }

  void run(const KernelCall& call) override;

 private:
  EmulatedScratch scratch_;
  CudaContext context_{nullptr, scratch_};
};

}  // namespace strata
