#include "engine/device/cpu/scratch_rules.h"

#include <fmt/format.h>

#include "engine/device/cpu/context.h"

namespace strata {

ScratchBytes CpuScratchRules::of(const KernelCall& call) const {
  return std::visit([this](const auto& each) { return scratch_on_cpu(each, threads_); }, call);
}

std::vector<ScratchPart> CpuScratchRules::parts(const ScratchBytes& largest) const {
  return {{fmt::format("areas of {} threads", threads_), threads_ * largest.per_thread},
          {"the area that they share", largest.shared}};
}

}  // namespace strata
