#include "engine/device/cpu/scratch_rules.h"

#include <fmt/format.h>

#include "engine/device/cpu/context.h"

namespace strata {

ScratchBytes CpuScratchRules::of(const Product& call) const {
  return scratch_on_cpu(call, threads_);
}
ScratchBytes CpuScratchRules::of(const NormForward& call) const {
  return scratch_on_cpu(call);
}
ScratchBytes CpuScratchRules::of(const NormBackward& call) const {
  return scratch_on_cpu(call);
}
ScratchBytes CpuScratchRules::of(const AttentionForward& call) const {
  return scratch_on_cpu(call);
}
ScratchBytes CpuScratchRules::of(const AttentionBackward& call) const {
  return scratch_on_cpu(call);
}
ScratchBytes CpuScratchRules::of(const CrossEntropy& call) const {
  return scratch_on_cpu(call);
}
ScratchBytes CpuScratchRules::of(const EmbeddingBackward& /*call*/) const {
  return {};
}
ScratchBytes CpuScratchRules::of_column_sums(const Matrix& x) const {
  return column_sums_scratch_on_cpu(x);
}
ScratchBytes CpuScratchRules::of_sum_of_squares(const Matrix& /*x*/) const {
  return {};
}

std::vector<ScratchPart> CpuScratchRules::parts(const ScratchBytes& largest) const {
  return {{fmt::format("areas of {} threads", threads_), threads_ * largest.per_thread},
          {"the area that they share", largest.shared}};
}

}  // namespace strata
