#include "engine/graph/operators/activation.h"

#include "engine/graph/derivation.h"

namespace strata {

void ActivationRule::run(Kernels& kernels, const Operands& operands) const {
  if (gated_) {
    kernels.run(GatedForward{kind_, operands[x], operands[out]});
  } else {
    kernels.run(ActivationForward{kind_, operands[x], operands[out]});
  }
}

void ActivationRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView out_gradient = derivation.gradient(node[out]);
  if (!out_gradient) return;
  derivation.give(node[x], [&](const TensorView& to) {
    derivation.add(std::make_shared<ActivationGradientRule>(kind_, gated_), {node[x], out_gradient, to, {}});
  });
}

void ActivationGradientRule::run(Kernels& kernels, const Operands& operands) const {
  if (gated_) {
    kernels.run(
        GatedBackward{kind_, operands[x], operands[out_gradient], operands[x_gradient], operands[out]});
  } else {
    kernels.run(
        ActivationBackward{kind_, operands[x], operands[out_gradient], operands[x_gradient], operands[out]});
  }
}

}  // namespace strata
