// Attention through cuDNN's fused kernels: bf16 and fp16, causal, sliding window, grouped heads, operands
// that are column slices, documents as sequences of their own (attention_documents.h). log_sum_exp is the
// natural logarithm of the sum of exp(scale·q·k), as ours. A build without cuDNN computes nothing here.
#pragma once

#include <memory>
#include <string>

#include "engine/device/attention_calls.h"
#include "engine/device/cuda/context.h"
#include "engine/device/slow_paths.h"

namespace strata {

/// One thread at a time, with the device current, for calls of one stream.
class CudnnAttention {
 public:
  /// `slow_paths`, which outlive this object, name what is not computed here.
  explicit CudnnAttention(SlowPaths& slow_paths);
  ~CudnnAttention();

  /// Enqueues the call. False, with nothing enqueued, if cuDNN does not compute it: fp32, a soft cap, a step
  /// of a ring, operands that are not aligned to 16 bytes, a head_dimension that it lacks. The answer depends
  /// on shape, strides and dtype alone, and on whether there are documents.
  bool forward(const CudaContext& context, const AttentionForward& call);
  /// Deterministic.
  bool backward(const CudaContext& context, const AttentionBackward& call);

 private:
  class Plans;
  std::unique_ptr<Plans> plans_;
};

/// A GPU that need not be here.
struct DescribedGpu {
  int sm_version = 0;  ///< 90: Hopper
  /// As cuDNN writes them: CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION.
  std::string properties;
};

/// What cuDNN says of a call on it.
struct CudnnAnswer {
  Bytes workspace_bytes = 0;
  std::string refusal = {};  ///< why it does not compute it; empty if it does
};
/// Builds the plan that a stream of that GPU would run, of a backward pass that of a part; within documents
/// all plans of a part, and the answer has the largest workspace. Pointers are not followed. From cuDNN 9.8
/// on.
CudnnAnswer ask_cudnn(const AttentionForward& call, const DescribedGpu& gpu);
CudnnAnswer ask_cudnn(const AttentionBackward& call, const DescribedGpu& gpu);

}  // namespace strata
