#include "engine/model/graph/operators/dropout.h"

#include <cassert>

#include "engine/device/elementwise_calls.h"
#include "engine/model/graph/derivation.h"

namespace strata {

/// Rows bring their keys along.
std::shared_ptr<const Operator> DropoutRule::of_part(std::string_view variable, const AxisPart& part) const {
  if (variable != "c") return nullptr;
  return std::make_shared<DropoutRule>(probability_, site_, part.part);
}

void DropoutRule::run(Kernels& kernels, const Operands& operands) const {
  assert(site_ < kSitesOfUnit);
  kernels.run(Dropout{.x = operands[x],
                      .keys = operands.indices(keys),
                      .site = operands.unit() * kSitesOfUnit + site_,
                      .first_column = part_ * operands[x].columns,
                      .probability = static_cast<float>(probability_),
                      .out = operands[out]});
}

void DropoutRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView gradient = derivation.gradient(node[out]);
  if (!gradient) return;
  derivation.give(node[x], [&](const TensorView& to) {
    derivation.add(std::make_shared<DropoutRule>(*this), {gradient, node[keys], to});
  });
}

}  // namespace strata
