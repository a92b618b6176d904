// Copies of matrices from one storage type to another, on the calling thread.
#pragma once

#include "engine/device/matrix.h"

namespace strata {

/// to = from, each element rounded (to nearest, ties to even) if `to` is narrower. REQUIRES: equal shapes.
void convert(const Matrix& from, const Matrix& to);

}  // namespace strata
