// Takes the place of attention_cudnn.cpp in builds without cuDNN.
#include "engine/device/cuda/attention_cudnn.h"

namespace strata {

class CudnnAttention::Plans {};

CudnnAttention::CudnnAttention() = default;
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::forward(const CudaContext& /*context*/, const AttentionForward& /*call*/) {
  return false;
}

bool CudnnAttention::backward(const CudaContext& /*context*/, const AttentionBackward& /*call*/) {
  return false;
}

}  // namespace strata
