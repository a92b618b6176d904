// The exact global gradient norm: partial sums of squares over fixed blocks, added in a fixed order in double
// precision. The norm has the same bits for any number of threads and any placement.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace strata {

/// Sum of squares of `elements` contiguous values. Runs on the TBB arena it is called in.
double sum_of_squares(const void* values, DType dtype, std::int64_t elements);

/// The factor on every gradient: min(1, clip_norm / (norm + 1e-6)) as torch.nn.utils.clip_grad_norm_; 1 if
/// clip_norm is 0.
float clip_factor(double norm, double clip_norm);

}  // namespace strata
