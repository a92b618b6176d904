#include "engine/device/cuda/scratch_rules.h"

#include <algorithm>

#include "engine/device/cuda/attention_chunk.h"
#include "engine/device/cuda/attention_documents.h"
#include "engine/device/cuda/context.h"
#include "engine/device/kernel_calls.h"

namespace strata {
namespace {

/// cuBLASLt's workspace is a part of its own.
template <typename Call>
Bytes bytes_of(const Call& call) {
  return scratch_on_cuda(call);
}
Bytes bytes_of(const AttentionForward& call) {
  return call.places.empty() ? cudnn_forward_bytes(call.shape) : cudnn_scratch_within_documents(call);
}
Bytes bytes_of(const AttentionBackward& call) {
  return std::max(scratch_on_cuda(call), call.places.empty() ? cudnn_backward_bytes(call.shape)
                                                             : cudnn_scratch_within_documents(call));
}

}  // namespace

ScratchBytes CudaScratchRules::of(const KernelCall& call) const {
  return {.shared = call.visit([](const auto& each) { return bytes_of(each); })};
}

std::vector<ScratchPart> CudaScratchRules::parts(const ScratchBytes& largest) const {
  return {{"kernels and cuDNN", align_up(largest.shared, kCudaScratchStep)},
          {"cuBLASLt's workspace", kHopperWorkspaceBytes},
          {"code of CUDA's libraries", kLibraryCodeBytes}};
}

}  // namespace strata
