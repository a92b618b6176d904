#include "engine/model/graph/operators/activation.h"

#include "engine/device/activation_calls.h"
#include "engine/device/product_calls.h"
#include "engine/model/graph/derivation.h"

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
  return {std::make_shared<ActivationRule>(activation_, /*gated=*/false), {node[sum], node[out]}};
}

void LinearActivationRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(Product{.a = operands[x],
                      .b = operands[weight],
                      .transpose_b = order_ == WeightOrder::linear,
                      .out = operands[sum],
                      .bias = operands[bias],
                      .rounding = rounding_,
                      .activated = operands[out],
                      .activation = activation_});
}

double LinearActivationRule::flops(const Operands& operands) const {
  return LinearRule(order_, rounding_).flops(operands);
}

void LinearActivationRule::differentiate(const Node& node, Derivation& derivation) const {
  const Node activation = again(node);
  activation.rule->differentiate(activation, derivation);
  const Node linear = {std::make_shared<LinearRule>(order_, rounding_),
                       {node[x], node[weight], node[bias], {}, node[sum]}};
  linear.rule->differentiate(linear, derivation);
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

std::optional<Node> ActivationGradientRule::with_remade(const Node& node, const Node& remade) const {
  const std::optional<ActivationForm> made = remade.rule->fusion_form().activation;
  if (!made || made->kind != kind_ || made->is_gated != gated_ || node[out] || remade[made->x] != node[x])
    return {};
  Node both = node;
  both[out] = remade[made->out];
  return both;
}

}  // namespace strata
