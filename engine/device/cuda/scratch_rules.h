// What the GPU's kernels need besides their operands: known without a GPU. The functions stand beside the
// launchers, which call them too; cuBLASLt's workspace is of a fixed size, and cuDNN's are bounded here.
#pragma once

#include "engine/device/scratch_rules.h"

namespace strata {

/// What NVIDIA recommends for cuBLAS from Hopper on, whose kernels split the depth more often, and before.
constexpr Bytes kHopperWorkspaceBytes = 64 * MiB, kWorkspaceBytes = 32 * MiB;
/// The context, and code that CUDA's libraries load as they see shapes: 555 MiB on an H200, by CUDA 13.0 and
/// cuDNN 9, after a run of Llama 1.5B.
constexpr Bytes kLibraryCodeBytes = 640 * MiB;
/// In which scratch grows.
constexpr Bytes kCudaScratchStep = 2 * MiB;

class CudaScratchRules final : public ScratchRules {
 public:
  ScratchBytes of(const KernelCall& call) const override;
  std::vector<ScratchPart> parts(const ScratchBytes& largest) const override;
};

}  // namespace strata
