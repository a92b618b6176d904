// Norms of heads, head by head.
#include "engine/device/head_norm.h"

#include "engine/device/cpu/context.h"
#include "engine/device/norm_calls.h"

namespace strata {
namespace {

/// What the calls that `call` stands for need at most.
template <typename Call>
ScratchBytes largest_of_heads(const Call& call, int threads) {
  ScratchBytes largest;
  run_by_heads(call, [&](const auto& each) { largest.raise(scratch_on_cpu(each, threads)); });
  return largest;
}

}  // namespace

ScratchBytes scratch_on_cpu(const HeadNormForward& norm, int threads) {
  return largest_of_heads(norm, threads);
}
ScratchBytes scratch_on_cpu(const HeadNormBackward& norm, int threads) {
  return largest_of_heads(norm, threads);
}

void run_on_cpu(CpuContext& context, const HeadNormForward& norm) {
  run_by_heads(norm, [&](const auto& call) { run_on_cpu(context, call); });
}
void run_on_cpu(CpuContext& context, const HeadNormBackward& norm) {
  run_by_heads(norm, [&](const auto& call) { run_on_cpu(context, call); });
}

}  // namespace strata
