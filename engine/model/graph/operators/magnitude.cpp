#include "engine/model/graph/operators/magnitude.h"

#include "engine/device/elementwise_calls.h"
#include "engine/device/product_calls.h"
#include "engine/model/graph/derivation.h"

namespace strata {

void ColumnSquaresRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(Zero{operands[squares]});
  kernels.run(ColumnDots{.a = operands[x], .b = operands[x], .sums = operands[squares]});
}

/// Where ranks make a sum together, one of them has the gram matrix.
void MagnitudeDotsRule::run(Kernels& kernels, const Operands& operands) const {
  const bool has_gram = static_cast<bool>(operands[gram]);
  if (has_gram) {
    kernels.run(Product{.a = operands[up], .b = operands[gram], .out = operands[product]});
    kernels.run(Scale{operands[product], operands[product], scale_ / 2});
  }
  kernels.run(Product{.a = operands[weight],
                      .transpose_a = order_ == WeightOrder::conv1d,
                      .b = operands[down],
                      .transpose_b = true,
                      .out = operands[product],
                      .accumulate = has_gram});
  kernels.run(RowDots{.a = operands[product], .b = operands[up], .out = operands[dots]});
  kernels.run(Scale{operands[dots], operands[dots], 2 * scale_});
}

double MagnitudeDotsRule::flops(const Operands& operands) const {
  const auto rank = static_cast<double>(operands[up].columns),
             outputs = static_cast<double>(operands[up].rows);
  return 2 * outputs * rank * (static_cast<double>(operands[down].columns) + rank);
}

void MagnitudeFactorsRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(MagnitudeFactors{.squares = operands[squares],
                               .dots = operands[dots],
                               .magnitudes = operands[magnitude],
                               .reciprocal_norms = operands[norms],
                               .factors = operands[factors]});
}

void ColumnScaleRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(ColumnScale{
      .x = operands[x], .factors = operands[factors], .bias = operands[bias], .out = operands[out]});
}

void ColumnScaleRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView gradient = derivation.gradient(node[out]);
  if (!gradient) return;
  if (derivation.wants(node[bias]))
    derivation.add(std::make_shared<BiasGradientRule>(),
                   {gradient, derivation.parameter_gradient(node[bias])});
  if (derivation.wants(node[magnitude]))
    derivation.add(std::make_shared<MagnitudeGradientRule>(),
                   {node[x], gradient, node[norms], derivation.parameter_gradient(node[magnitude])});
  derivation.give(node[x], [&](const TensorView& to) {
    derivation.add(std::make_shared<ColumnScaleRule>(), {gradient, {}, {}, node[factors], {}, to});
  });
}

void MagnitudeGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(ColumnDots{.a = operands[x],
                         .b = operands[out_gradient],
                         .factors = operands[norms],
                         .sums = operands[magnitude_gradient]});
}

}  // namespace strata
