#include "engine/device/cpu/scratch_rules.h"

#include <fmt/format.h>

#include "engine/device/cpu/context.h"
#include "engine/device/kernel_calls.h"

namespace strata {

ScratchBytes CpuScratchRules::of(const KernelCall& call) const {
  return call.visit([this](const auto& each) { return scratch_on_cpu(each, threads_); });
}

std::vector<ScratchPart> CpuScratchRules::parts(const ScratchBytes& largest) const {
  return {{fmt::format("areas of {} threads", threads_), threads_ * largest.per_thread},
          {"the area that they share", largest.shared}};
}

}  // namespace strata
