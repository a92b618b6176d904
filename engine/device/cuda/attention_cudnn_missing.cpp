// Takes the place of attention_cudnn.cpp in builds without cuDNN.
#include <fmt/format.h>

#include "engine/device/attention_calls.h"
#include "engine/device/cuda/attention_cudnn.h"

namespace strata {
namespace {

constexpr const char* kMissing =
    "this program was built without cuDNN; build it where cuDNN and its frontend's headers are found";

}  // namespace

class CudnnAttention::Plans {
 public:
  explicit Plans(SlowPaths& slow_paths) : slow_paths_(slow_paths) {}
  bool refuse() {
    slow_paths_.add(fmt::format("attention goes through kernels that are slower than cuDNN's: {}", kMissing));
    return false;
  }

 private:
  SlowPaths& slow_paths_;
};

CudnnAttention::CudnnAttention(SlowPaths& slow_paths) : plans_(std::make_unique<Plans>(slow_paths)) {}
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::forward(const CudaContext& /*context*/, const AttentionForward& /*call*/) {
  return plans_->refuse();
}

bool CudnnAttention::backward(const CudaContext& /*context*/, const AttentionBackward& /*call*/) {
  return plans_->refuse();
}

CudnnAnswer ask_cudnn(const AttentionForward& /*call*/, const DescribedGpu& /*gpu*/) {
  return {.refusal = kMissing};
}

CudnnAnswer ask_cudnn(const AttentionBackward& /*call*/, const DescribedGpu& /*gpu*/) {
  return {.refusal = kMissing};
}

}  // namespace strata
