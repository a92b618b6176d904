#include "engine/device/optimizer_state.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/device/reference/scalar.h"

namespace strata {
using namespace reference;

void ReferenceKernels::adamw(const AdamWUpdate& update) {
  const std::int64_t elements = update.master.columns;
  expect(is_fp32(update.master, 1, elements), "an fp32 master [1, n]");
  expect(is_fp32(update.exp_avg, 1, elements), "an fp32 exp_avg [1, n]");
  expect(is_fp32(update.exp_avg_sq, 1, elements), "an fp32 exp_avg_sq [1, n]");
  expect(is_shape(update.gradient, 1, elements), "a gradient [1, n]");
  expect(!update.parameter || is_shape(update.parameter, 1, elements), "a parameter [1, n] or none");
  if (update.scalars->skip != 0) return;
  adamw_reference(update.decay ? update.scalars->decayed : update.scalars->plain, adamw_state(update));
}

void ReferenceKernels::sum_of_squares(const Matrix& x, double* sum) {
  *sum = 0;
  for (std::int64_t column = 0; column < x.columns; ++column) *sum += load(x, 0, column) * load(x, 0, column);
}

}  // namespace strata
