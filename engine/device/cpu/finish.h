// The end of a matrix product: from fp32 sums in a small buffer to the output's dtype, with bias and
// accumulation.
#pragma once

#include "engine/device/matrix.h"

namespace strata {

/// out = sums (+ bias) (+ out if accumulate), rounded once. `sums` is fp32 of out's rows and columns; bias,
/// optional, is [1, columns] of any dtype.
void finish_block(const Matrix& sums, const Matrix& bias, bool accumulate, const Matrix& out);

}  // namespace strata
