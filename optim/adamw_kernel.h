// Internal to optim: the vector kernel over a stretch of memory. The kernel is chosen at run time for the
// processor; every target gives the bits of adamw_reference. Any thread.
#pragma once

#include <cstdint>

#include "optim/adamw.h"

namespace strata {

/// Pointers to the first element of a stretch.
struct AdamWPointers {
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
  const void* gradient;
  DType gradient_dtype;
  void* parameter;  ///< may be null
  DType parameter_dtype;
};

/// The stretch that starts `elements` later.
AdamWPointers advanced(const AdamWPointers& at, std::int64_t elements);

/// Updates `elements` elements. `stream`: the parameter is written past the caches, for stretches that are
/// larger than them.
void adamw_kernel(const AdamWCoefficients& step, const AdamWPointers& at, std::int64_t elements, bool stream);

}  // namespace strata
