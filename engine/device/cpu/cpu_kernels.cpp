#include "engine/device/cpu/cpu_kernels.h"

#include "engine/device/cpu/context.h"
#include "engine/device/kernel_calls.h"
#include "optim/gradient_norm.h"
#include "optim/momentum.h"
#include "optim/update.h"

namespace strata {

CpuKernels::CpuKernels(TaskArena& pool)
    : context_(std::make_unique<CpuContext>(CpuContext{pool, CpuScratch(pool.threads())})) {}
CpuKernels::~CpuKernels() = default;

void CpuKernels::reserve_scratch(const ScratchBytes& largest) {
  context_->scratch.reserve(largest);
}

Bytes CpuKernels::scratch_bytes() const {
  return context_->scratch.bytes();
}

void CpuKernels::run(const KernelCall& call) {
  call.visit([this](const auto& each) { run_on_cpu(*context_, each); });
}

void run_on_cpu(CpuContext& context, const ParameterUpdate& call) {
  if (*call.skip != 0) return round_masters(call.state);
  const AverageCoefficients averaged = call.average == nullptr ? AverageCoefficients() : *call.average;
  context.pool.execute([&] { update(*call.step, call.state, averaged); });
}

void run_on_cpu(CpuContext& context, const MomentumMix& call) {
  if (*call.skip != 0) return;
  context.pool.execute([&] { mix_momentum(*call.step, call.state, call.direction.data); });
}

void run_on_cpu(CpuContext& context, const SumOfSquares& call) {
  context.pool.execute([&] {
    const double sum = sum_of_squares(call.x.data, call.x.dtype, call.x.elements());
    *call.sum = call.accumulate ? *call.sum + sum : sum;
  });
}

}  // namespace strata
