// Operands of products rounded to FP8's e4m3, as CPUs have them: in bf16, which has every number of e4m3 that
// a Float8Scale was taken from again.
#pragma once

#include "base/task_arena.h"
#include "engine/device/matrix.h"

namespace strata {

/// to = what a product has instead of `from`, of whose largest finite magnitude the scale is. Bits depend on
/// no order. REQUIRES: bf16 matrices of one shape.
void round_to_e4m3(TaskArena& pool, const Matrix& from, const Matrix& to);

}  // namespace strata
