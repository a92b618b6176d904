// The GPU's kernels on one stream (contracts: engine/device/kernels.h). Products go to cuBLASLt, attention to
// cuDNN if it computes the call, everything else to the kernels of this folder. Operands are in the GPU's
// memory.
#pragma once

#include <memory>

#include "engine/device/attention_calls.h"
#include "engine/device/cuda/attention_cudnn.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/cuda_memory.h"
#include "engine/device/cuda/float8_product.h"
#include "engine/device/cuda/matmul.h"
#include "engine/device/product_calls.h"

namespace strata {

class CudaKernels final : public Kernels {
 public:
  /// `stream` belongs to `device`; it, `chosen` and `slow_paths` outlive this object.
  CudaKernels(int device, CUstream_st* stream, const MatmulAlgorithms& chosen, SlowPaths& slow_paths);
  ~CudaKernels() override;

  void reserve_scratch(const ScratchBytes& largest) override;
  Bytes scratch_bytes() const override;
  void run(const KernelCall& call) override;

 private:
  /// Memory that is replaced by more if that is asked for.
  class Scratch final : public CudaScratch {
   public:
    Scratch(int device, CUstream_st* stream) : device_(device), stream_(stream) {}
    std::byte* at_least(Bytes bytes) override;
    Bytes bytes() const { return memory_ == nullptr ? 0 : memory_->size(); }

   private:
    int device_;
    CUstream_st* stream_;
    std::unique_ptr<CudaMemory> memory_;
  };

  /// The device is current.
  template <typename Call>
  void issue(const Call& call) {
    run_on_cuda(context_, call);
  }
  void issue(const Product& product) {
    if (product.rounding == Rounding::none) {
      matmul_.multiply(context_, product);
    } else {
      float8_.multiply(context_, product);
    }
  }
  void issue(const AttentionForward& call) {
    if (!cudnn_.forward(context_, call)) run_on_cuda(context_, call);
  }
  void issue(const AttentionBackward& call) {
    if (!cudnn_.backward(context_, call)) run_on_cuda(context_, call);
  }

  int device_;
  Scratch scratch_;
  CudaContext context_;
  CudaMatmul matmul_;
  CudaFloat8Product float8_;
  CudnnAttention cudnn_;
};

}  // namespace strata
