// What the CPU's kernels need besides their operands. The functions stand beside the kernels, which call them
// too.
#pragma once

#include "engine/device/scratch_rules.h"

namespace strata {

class CpuScratchRules final : public ScratchRules {
 public:
  /// `threads` of the device: each has an area of its own.
  explicit CpuScratchRules(int threads) : threads_(threads) {}

  ScratchBytes of(const Product& call) const override;
  ScratchBytes of(const NormForward& call) const override;
  ScratchBytes of(const NormBackward& call) const override;
  ScratchBytes of(const AttentionForward& call) const override;
  ScratchBytes of(const AttentionBackward& call) const override;
  ScratchBytes of(const CrossEntropy& call) const override;
  ScratchBytes of(const EmbeddingBackward& call) const override;
  ScratchBytes of_column_sums(const Matrix& x) const override;
  ScratchBytes of_sum_of_squares(const Matrix& x) const override;
  std::vector<ScratchPart> parts(const ScratchBytes& largest) const override;

 private:
  int threads_;
};

}  // namespace strata
