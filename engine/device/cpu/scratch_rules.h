// What the CPU's kernels need besides their operands. The functions stand beside the kernels, which call them
// too.
#pragma once

#include "engine/device/scratch_rules.h"

namespace strata {

class CpuScratchRules final : public ScratchRules {
 public:
  /// `threads` of the device: each has an area of its own.
  explicit CpuScratchRules(int threads) : threads_(threads) {}

  ScratchBytes of(const KernelCall& call) const override;
  std::vector<ScratchPart> parts(const ScratchBytes& largest) const override;

 private:
  int threads_;
};

}  // namespace strata
