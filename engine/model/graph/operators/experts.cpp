#include "engine/model/graph/operators/experts.h"

#include "engine/device/expert_calls.h"
#include "engine/device/row_calls.h"
#include "engine/model/graph/derivation.h"
#include "engine/model/graph/operators/elementwise.h"

namespace strata {
namespace {

double expert_product_flops(const Matrix& rows, const Matrix& out) {
  return 2 * static_cast<double>(rows.rows) * static_cast<double>(rows.columns) *
         static_cast<double>(out.columns);
}

}  // namespace

void RouteRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(RouteForward{.normalise = normalise_,
                           .logits = operands[logits],
                           .probabilities = operands[probabilities],
                           .experts = operands.writable_indices(experts),
                           .weights = operands[weights]});
}

void RouteRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView balance = derivation.gradient(node[probabilities]);
  TensorView weights_gradient = derivation.gradient(node[weights]);
  if (!weights_gradient && !balance) return;
  if (!weights_gradient) {  // nobody reads what the experts made, and yet they are balanced
    weights_gradient = derivation.first_gradient(node[weights]);
    derivation.add(std::make_shared<ZeroRule>(), {weights_gradient});
  }
  derivation.give(node[logits], [&](const TensorView& to) {
    derivation.add(std::make_shared<RouteGradientRule>(normalise_),
                   {node[probabilities], node[experts], node[weights], weights_gradient, balance, to});
  });
}

void RouteGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(RouteBackward{.normalise = normalise_,
                            .probabilities = operands[probabilities],
                            .experts = operands.indices(experts),
                            .weights = operands[weights],
                            .weights_gradient = operands[weights_gradient],
                            .balance = operands[probabilities_gradient],
                            .logits_gradient = operands[logits_gradient]});
}

void GroupRowsRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(GroupRows{.groups = operands.indices(experts),
                        .copies = top_k_,
                        .sources = operands.writable_indices(sources),
                        .places = operands.writable_indices(places),
                        .offsets = operands.writable_indices(offsets)});
}

void SortRowsRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(RowCopy{operands[x], operands.indices(sources), operands[out]});
}

void SortRowsRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView gradient = derivation.gradient(node[out]);
  if (!gradient) return;
  derivation.give(node[x], [&](const TensorView& to) {
    derivation.add(std::make_shared<CombineRule>(), {gradient, node[places], {}, to});
  });
}

void ExpertProductRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(GroupedProduct{.offsets = operands.indices(offsets),
                             .a = operands[x],
                             .b = operands[weight],
                             .transpose_b = transposed_,
                             .out = operands[out]});
}

double ExpertProductRule::flops(const Operands& operands) const {
  return expert_product_flops(operands[x], operands[out]);
}

void ExpertProductRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView gradient = derivation.gradient(node[out]);
  if (!gradient) return;
  if (derivation.wants(node[weight]))
    derivation.add(std::make_shared<ExpertWeightGradientRule>(),
                   {node[x], node[offsets], gradient, derivation.parameter_gradient(node[weight])});
  derivation.give(node[x], [&](const TensorView& to) {
    derivation.add(std::make_shared<ExpertProductRule>(!transposed_),
                   {gradient, node[offsets], node[weight], to});
  });
}

void ExpertWeightGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(GroupedWeightGradient{.offsets = operands.indices(offsets),
                                    .a = operands[out_gradient],
                                    .b = operands[x],
                                    .gradient = operands[weight_gradient]});
}

double ExpertWeightGradientRule::flops(const Operands& operands) const {
  return expert_product_flops(operands[x], operands[out_gradient]);
}

void CombineRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(CombineRows{.x = operands[x],
                          .places = operands.indices(places),
                          .weights = operands[weights],
                          .out = operands[out]});
}

void CombineRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView gradient = derivation.gradient(node[out]);
  if (!gradient || (!derivation.wants(node[x]) && !derivation.wants(node[weights]))) return;
  const TensorView x_gradient = derivation.first_gradient(node[x]);
  const TensorView weights_gradient = derivation.first_gradient(node[weights]);
  derivation.add(std::make_shared<CombineGradientRule>(),
                 {node[x], node[places], node[weights], gradient, x_gradient, weights_gradient});
}

void CombineGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(CombineRowsBackward{.x = operands[x],
                                  .places = operands.indices(places),
                                  .weights = operands[weights],
                                  .out_gradient = operands[out_gradient],
                                  .x_gradient = operands[x_gradient],
                                  .weights_gradient = operands[weights_gradient]});
}

}  // namespace strata
