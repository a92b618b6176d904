#include "engine/device/reference/reference_kernels.h"
#include "engine/device/reference/scalar.h"
#include "engine/device/state_calls.h"
#include "optim/momentum.h"
#include "optim/update.h"

namespace strata {
using namespace reference;

void run_on_reference(const ParameterUpdate& update) {
  expect(update.state.format.master == MasterFormat::fp32 || update.state.precision == DType::bf16,
         "no fp32 master but of a bf16 parameter");
  if (*update.skip != 0) return round_masters(update.state);
  update_reference(*update.step, update.state,
                   update.average == nullptr ? AverageCoefficients() : *update.average);
}

void run_on_reference(const MomentumMix& call) {
  expect(is_shape(call.direction, 1, call.state.elements) && call.direction.dtype == call.state.precision,
         "a direction like the gradient");
  if (*call.skip == 0) mix_momentum_reference(*call.step, call.state, call.direction.data);
}

void run_on_reference(const SumOfSquares& call) {
  const auto& [x, sum, accumulate] = call;
  if (!accumulate) *sum = 0;
  for (std::int64_t column = 0; column < x.columns; ++column) *sum += load(x, 0, column) * load(x, 0, column);
}

}  // namespace strata
