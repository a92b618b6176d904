#include "engine/device/cuda/scratch_rules.h"

#include "engine/device/cuda/attention_chunk.h"
#include "engine/device/cuda/context.h"

namespace strata {

ScratchBytes CudaScratchRules::of(const Product& /*call*/) const {
  return {};  // cuBLASLt's workspace, a part of its own
}
ScratchBytes CudaScratchRules::of(const NormForward& /*call*/) const {
  return {};
}
ScratchBytes CudaScratchRules::of(const NormBackward& call) const {
  return {.shared = norm_backward_scratch_on_cuda(call)};
}
ScratchBytes CudaScratchRules::of(const AttentionForward& call) const {
  return {.shared = cudnn_forward_bytes(call.shape)};
}
ScratchBytes CudaScratchRules::of(const AttentionBackward& call) const {
  return {.shared =
              std::max(attention_backward_scratch_on_cuda(call.shape), cudnn_backward_bytes(call.shape))};
}
ScratchBytes CudaScratchRules::of(const CrossEntropy& /*call*/) const {
  return {};
}
ScratchBytes CudaScratchRules::of(const EmbeddingBackward& call) const {
  return {.shared = embedding_backward_scratch_on_cuda(call.tokens.size())};
}
ScratchBytes CudaScratchRules::of_column_sums(const Matrix& x) const {
  return {.shared = column_sums_scratch_on_cuda(x)};
}
ScratchBytes CudaScratchRules::of_sum_of_squares(const Matrix& x) const {
  return {.shared = sum_of_squares_scratch_on_cuda(x)};
}

std::vector<ScratchPart> CudaScratchRules::parts(const ScratchBytes& largest) const {
  return {{"kernels and cuDNN", align_up(largest.shared, kCudaScratchStep)},
          {"cuBLASLt's workspace", kHopperWorkspaceBytes},
          {"code of CUDA's libraries", kLibraryCodeBytes}};
}

}  // namespace strata
