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

Node LinearActivationRule::again(const Node& node) const {
  return {std::make_shared<ActivationRule>(activation_), {node[sum], node[out]}};
}

void LinearActivationRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(Product{.a = operands[x],
                      .b = operands[weight],
                      .transpose_b = linear_.order() == WeightOrder::linear,
                      .out = operands[sum],
                      .bias = operands[bias],
                      .rounding = linear_.rounding(),
                      .activated = operands[out],
                      .activation = activation_.kind()});
}

double LinearActivationRule::flops(const Operands& operands) const {
  return linear_.flops(operands);
}

void LinearActivationRule::differentiate(const Node& node, Derivation& derivation) const {
  activation_.differentiate(again(node), derivation);
  linear_.differentiate(
      {std::make_shared<LinearRule>(linear_), {node[x], node[weight], node[bias], {}, node[sum]}},
      derivation);
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
