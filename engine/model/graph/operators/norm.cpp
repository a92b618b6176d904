#include "engine/model/graph/operators/norm.h"

#include <utility>

#include "engine/device/norm_calls.h"
#include "engine/device/product_calls.h"
#include "engine/model/graph/derivation.h"
#include "engine/model/graph/legality.h"
#include "engine/model/graph/share_columns.h"

namespace strata {

Node NormRule::again(const Node& node) const {
  if (!node[addend]) return node;
  Node norm = node;
  norm[x] = node[sum];
  norm[addend] = norm[sum] = {};
  return norm;
}

void NormRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(NormForward{.kind = options_.kind,
                          .epsilon = static_cast<float>(options_.epsilon),
                          .input = operands[x],
                          .addend = operands[addend],
                          .sum = operands[sum],
                          .weight = operands[weight],
                          .unit_offset = options_.unit_offset,
                          .bias = operands[bias],
                          .out = operands[out],
                          .mean = operands[mean],
                          .reciprocal_deviation = operands[deviation]});
}

void NormRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView normalised = node[sum] ? node[sum] : node[x];
  if (const TensorView out_gradient = derivation.gradient(node[out])) {
    const auto make = [&](const TensorView& to, const TensorView& before) {
      derivation.add(
          std::make_shared<NormGradientRule>(options_),
          {normalised, node[weight], node[mean], node[deviation], out_gradient, before, to,
           derivation.parameter_gradient(node[weight]), derivation.parameter_gradient(node[bias])});
    };
    if (derivation.wants(normalised)) {
      derivation.give(normalised, make);
    } else if (derivation.wants(node[weight]) || derivation.wants(node[bias])) {
      make(derivation.unwanted_gradient(normalised), {});
    }
  }
  if (!node[sum]) return;
  const TensorView gradient = derivation.gradient(node[sum]);
  if (!gradient) return;
  derivation.pass(node[x], gradient);
  derivation.pass(node[addend], gradient);
}

/// RMS norms add up squares, and each rank has the deviation by itself.
bool NormRule::share_columns(const Node& node, const ColumnSharing& sharing, UnitGraph& graph) const {
  if (options_.kind != NormKind::rms_norm || node[addend]) return false;
  const Axis axis = axes_of(graph, node[x])[1];
  if (!sharing.splits(axis)) return false;
  const std::int64_t columns = axis.extent().count;
  Tensor sums = graph.tensor(node[deviation]);
  sums.name = graph.tensor(node[out]).name + ".squares";
  const TensorView squares{graph.add(std::move(sums))};
  graph.nodes.push_back({std::make_shared<RowSquaresRule>(), {node[x], squares}});
  graph.nodes.push_back(
      {std::make_shared<RowDeviationRule>(options_.epsilon, columns), {squares, node[deviation]}});
  graph.nodes.push_back({std::make_shared<SharedNormRule>(options_, columns),
                         {node[x], node[deviation], node[weight], node[out]}});
  return true;
}

void NormGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(NormBackward{.kind = options_.kind,
                           .input = operands[input],
                           .weight = operands[weight],
                           .unit_offset = options_.unit_offset,
                           .mean = operands[mean],
                           .reciprocal_deviation = operands[deviation],
                           .out_gradient = operands[out_gradient],
                           .addend = operands[addend],
                           .input_gradient = operands[input_gradient],
                           .weight_gradient = operands[weight_gradient],
                           .bias_gradient = operands[bias_gradient]});
}

void RowSquaresRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(RowDots{.a = operands[x], .b = operands[x], .out = operands[squares]});
}

void RowDeviationRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(RowDeviation{.squares = operands[squares],
                           .columns = columns_,
                           .epsilon = static_cast<float>(epsilon_),
                           .deviation = operands[deviation]});
}

void SharedNormRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(NormForward{.kind = NormKind::rms_norm,
                          .epsilon = static_cast<float>(options_.epsilon),
                          .input = operands[x],
                          .weight = operands[weight],
                          .unit_offset = options_.unit_offset,
                          .out = operands[out],
                          .reciprocal_deviation = operands[deviation],
                          .given_deviation = true});
}

void SharedNormRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView out_gradient = derivation.gradient(node[out]);
  const bool is_wanted = derivation.wants(node[x]) || derivation.wants(node[weight]);
  if (!out_gradient || !is_wanted) return;
  const TensorView projections = derivation.unwanted_gradient(node[deviation]);
  derivation.add(std::make_shared<RowProjectionRule>(options_),
                 {node[x], out_gradient, node[weight], projections});
  const auto make = [&](const TensorView& to, const TensorView& before) {
    derivation.add(std::make_shared<SharedNormGradientRule>(options_, columns_),
                   {node[x], node[weight], node[deviation], projections, out_gradient, before, to,
                    derivation.parameter_gradient(node[weight])});
  };
  if (derivation.wants(node[x])) {
    derivation.give(node[x], make);
  } else {
    make(derivation.unwanted_gradient(node[x]), {});
  }
}

void RowProjectionRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(RowDots{.a = operands[x],
                      .b = operands[out_gradient],
                      .weight = operands[weight],
                      .unit_offset = options_.unit_offset,
                      .out = operands[projections]});
}

void SharedNormGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(NormBackward{.kind = NormKind::rms_norm,
                           .input = operands[x],
                           .weight = operands[weight],
                           .unit_offset = options_.unit_offset,
                           .reciprocal_deviation = operands[deviation],
                           .out_gradient = operands[out_gradient],
                           .addend = operands[addend],
                           .input_gradient = operands[input_gradient],
                           .weight_gradient = operands[weight_gradient],
                           .projections = operands[projections],
                           .whole_columns = columns_});
}

TokenOperands HeadNormRule::token_operands(const Node& node) const {
  if (!node[cosine]) return {};
  return {.places = places, .cosine = cosine, .sine = sine};
}

void HeadNormRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(HeadNormForward{.queries_per_key = queries_per_key_,
                              .epsilon = static_cast<float>(options_.epsilon),
                              .x = operands[x],
                              .query_weight = operands[query_weight],
                              .key_weight = operands[key_weight],
                              .unit_offset = options_.unit_offset,
                              .out = operands[out],
                              .reciprocal_deviation = operands[deviation],
                              .sequence = operands.shape().sequence,
                              .cosine = operands[cosine],
                              .sine = operands[sine],
                              .places = operands.indices(places)});
}

void HeadNormRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView gradient = derivation.gradient(node[out]);
  if (!gradient || !derivation.wants(node[out])) return;
  derivation.add(std::make_shared<HeadNormGradientRule>(options_, queries_per_key_),
                 {node[x], node[query_weight], node[key_weight], node[deviation], gradient,
                  derivation.parameter_gradient(node[query_weight]),
                  derivation.parameter_gradient(node[key_weight]), node[cosine], node[sine], node[places]});
}

void HeadNormGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(HeadNormBackward{.queries_per_key = queries_per_key_,
                               .x = operands[x],
                               .query_weight = operands[query_weight],
                               .key_weight = operands[key_weight],
                               .unit_offset = options_.unit_offset,
                               .reciprocal_deviation = operands[deviation],
                               .gradient = operands[gradient],
                               .query_weight_gradient = operands[query_weight_gradient],
                               .key_weight_gradient = operands[key_weight_gradient],
                               .sequence = operands.shape().sequence,
                               .cosine = operands[cosine],
                               .sine = operands[sine],
                               .places = operands.indices(places)});
}

}  // namespace strata
