#include "engine/model/graph/operators/elementwise.h"

#include "engine/device/elementwise_calls.h"
#include "engine/model/graph/derivation.h"

namespace strata {

void AdditionRule::run(Kernels& kernels, const Operands& operands) const {
  if (operands[a] && operands[b]) return kernels.run(Addition{operands[a], operands[b], operands[out]});
  const Matrix& given = operands[a] ? operands[a] : operands[b];
  if (given.data != operands[out].data) kernels.run(Cast{given, operands[out]});
}

void AdditionRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView gradient = derivation.gradient(node[out]);
  if (!gradient) return;
  derivation.pass(node[a], gradient);
  derivation.pass(node[b], gradient);
}

/// The next kernel may write its output over `x`, so that is the newer summand.
std::optional<Node> AdditionRule::fuse_next(const UnitGraph&, const Node& node, const Node& next) const {
  const std::optional<AddendForm> form = next.rule->fusion_form().addend;
  if (!form || next[form->x] != node[out]) return {};
  Node fused = next;
  fused[form->x] = node[b];
  fused[form->addend] = node[a];
  fused[form->sum] = node[out];
  return fused;
}

void ScaleRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(Scale{operands[x], operands[out], factor_});
}

void ScaleRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView gradient = derivation.gradient(node[out]);
  if (!gradient) return;
  derivation.give(node[x], [&](const TensorView& to) {
    derivation.add(std::make_shared<ScaleRule>(factor_), {gradient, to});
  });
}

void ZeroRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(Zero{operands[x]});
}

void CopyRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(Cast{operands[x], operands[out]});
}

void CopyRule::differentiate(const Node& node, Derivation& derivation) const {
  if (const TensorView gradient = derivation.gradient(node[out])) derivation.pass(node[x], gradient);
}

}  // namespace strata
