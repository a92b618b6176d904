// What surrounds a matrix product if cuBLASLt does not add the bias itself.
#pragma once

#include "engine/device/cuda/context.h"

namespace strata {

/// out[i,:] = bias (+ out[i,:] if accumulate), rounded once. bias: [1, columns], out's dtype or another.
void add_bias_on_cuda(const CudaContext& context, const Matrix& bias, const Matrix& out, bool accumulate);

}  // namespace strata
