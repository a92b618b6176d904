// Internal to optim: one step's scalars as the inner loop uses them, and the vector kernel over a stretch of
// memory. The kernel is chosen at run time for the processor; every target gives the bits of adamw_reference.
// Any thread.
#pragma once

#include <cstdint>

#include "optim/adamw.h"

namespace strata {

/// AdamWStep with everything that does not depend on the element folded, in double precision, then rounded
/// once.
struct AdamWCoefficients {
  float gradient_scale;
  float keep;  ///< 1 - lr·wd
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float inverse_correction2;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
  float step_size;  ///< lr / (1 - beta1^t)
};
AdamWCoefficients coefficients(const AdamWStep& step);

/// Pointers to the first element of a stretch.
struct AdamWPointers {
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
  const void* gradient;
  DType gradient_dtype;
  bfloat16* parameter;  ///< may be null
};

/// Updates `elements` elements. `stream`: the parameter is written past the caches, for stretches that are
/// larger than them.
void adamw_kernel(const AdamWCoefficients& step, const AdamWPointers& at, std::int64_t elements, bool stream);

}  // namespace strata
