// Calls of functions of one number between two layers.
#pragma once

#include "engine/device/activation.h"
#include "engine/device/kernel_call.h"

namespace strata {

/// out = activation(x), elementwise. out may be x.
struct ActivationForward {
  Activation kind;
  Matrix x, out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, out);
  }
};

/// x_gradient = out_gradient · activation'(x). x_gradient may be out_gradient or x, and `out` the other.
struct ActivationBackward {
  Activation kind;
  Matrix x, out_gradient, x_gradient;
  Matrix out = {};  ///< optional: activation(x), to the bit what ActivationForward writes

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, out_gradient, x_gradient, out);
  }
};

/// out[m,n] = activation(gate) · up for gate_up = [gate | up] of [m, 2n]: SwiGLU, GeGLU (Shazeer 2020).
struct GatedForward {
  Activation kind;
  Matrix gate_up, out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, gate_up, out);
  }
};

/// gate_up_gradient[m,2n] from out_gradient[m,n]; may be gate_up itself, and `out` out_gradient.
struct GatedBackward {
  Activation kind;
  Matrix gate_up, out_gradient, gate_up_gradient;
  Matrix out = {};  ///< optional: activation(gate) · up, to the bit what GatedForward writes

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, gate_up, out_gradient, gate_up_gradient, out);
  }
};

}  // namespace strata
