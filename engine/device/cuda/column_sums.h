// Sums over the rows of a matrix on the GPU, in a fixed order: the gradient of a bias, and the last stage of
// every sum that blocks have begun.
#pragma once

#include "engine/device/cuda/context.h"

namespace strata {

/// gradient[1,n] += sum over rows of x[m,n], both fp32, without scratch: for x of at most some hundred rows.
void add_partial_sums_on_cuda(const CudaContext& context, const Matrix& x, const Matrix& gradient);

}  // namespace strata
