// Where a rule that needs whole tensors moves one: its direction, of all of its gradient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "engine/device/kernels.h"
#include "engine/device/matrix.h"
#include "optim/step_scalars.h"
#include "optim/update_rule.h"

namespace strata {

/// Bytes of the workspace that find_direction() wants for a tensor of this shape. A vector has one row.
Bytes direction_bytes(UpdateRule rule, std::int64_t rows, std::int64_t columns);

/// What decides it beside the gradient. All pointers are into the memory of the kernels' device.
struct DirectionRule {
  UpdateRule rule = UpdateRule::muon;
  bool is_vector = false;
  const std::uint32_t* skip = nullptr;  ///< of a rule with factors; not 0: they stay, and the direction is 0
  const UpdateCoefficients* step = nullptr;  ///< of a rule with factors
  float* factors = nullptr;                  ///< factors_of() in engine/model/factors.h, one behind the other
};

/// Replaces a tensor's gradient by the direction of the rule's step, d or o or g / (sqrt(s) + eps) in
/// update_rule.h, and changes its factors. REQUIRES: the gradient is contiguous, and that of a rule that
/// orthogonalizes is mixed; `workspace` is at a multiple of 64 bytes.
void find_direction(Kernels& kernels, const DirectionRule& rule, const Matrix& gradient,
                    std::byte* workspace);

}  // namespace strata
