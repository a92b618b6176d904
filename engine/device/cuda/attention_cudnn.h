// Attention through cuDNN's fused kernels: bf16 and fp16, causal, sliding window, grouped heads, operands
// that are column slices. log_sum_exp is the natural logarithm of the sum of exp(scale·q·k), as ours. A build
// without cuDNN computes nothing here.
#pragma once

#include <memory>

#include "engine/device/cuda/context.h"

namespace strata {

/// One thread at a time, with the device current, for calls of one stream.
class CudnnAttention {
 public:
  CudnnAttention();
  ~CudnnAttention();

  /// Enqueues the call. False, with nothing enqueued, if cuDNN does not compute it: fp32, a soft cap,
  /// operands that are not aligned to 16 bytes, a head_dimension that it lacks. The answer depends on shape,
  /// strides and dtype alone.
  bool forward(const CudaContext& context, const AttentionForward& call);
  /// Deterministic.
  bool backward(const CudaContext& context, const AttentionBackward& call);

 private:
  class Plans;
  std::unique_ptr<Plans> plans_;
};

}  // namespace strata
