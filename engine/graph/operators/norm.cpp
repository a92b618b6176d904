#include "engine/graph/operators/norm.h"

#include "engine/graph/derivation.h"

namespace strata {
namespace {

bool is_query_head(std::int64_t head, std::int64_t heads, std::int64_t queries_per_key) {
  return head < heads / (queries_per_key + 1) * queries_per_key;
}

}  // namespace

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

void HeadNormRule::run(Kernels& kernels, const Operands& operands) const {
  const std::int64_t dimension = operands[query_weight].columns, heads = operands[x].columns / dimension;
  for (std::int64_t head = 0; head < heads; ++head) {
    kernels.run(NormForward{
        .kind = options_.kind,
        .epsilon = static_cast<float>(options_.epsilon),
        .input = operands[x].column_slice(head * dimension, dimension),
        .weight = operands[is_query_head(head, heads, queries_per_key_) ? query_weight : key_weight],
        .unit_offset = options_.unit_offset,
        .out = operands[out].column_slice(head * dimension, dimension),
        .reciprocal_deviation = operands[deviation].row_slice(head, 1)});
  }
}

void HeadNormRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView gradient = derivation.gradient(node[out]);
  if (!gradient || !derivation.wants(node[out])) return;
  derivation.add(
      std::make_shared<HeadNormGradientRule>(options_, queries_per_key_),
      {node[x], node[query_weight], node[key_weight], node[deviation], gradient,
       derivation.parameter_gradient(node[query_weight]), derivation.parameter_gradient(node[key_weight])});
}

void HeadNormGradientRule::run(Kernels& kernels, const Operands& operands) const {
  const std::int64_t dimension = operands[query_weight].columns, heads = operands[x].columns / dimension;
  for (std::int64_t head = 0; head < heads; ++head) {
    const bool is_query = is_query_head(head, heads, queries_per_key_);
    const Matrix in_place = operands[gradient].column_slice(head * dimension, dimension);
    kernels.run(
        NormBackward{.kind = options_.kind,
                     .input = operands[x].column_slice(head * dimension, dimension),
                     .weight = operands[is_query ? query_weight : key_weight],
                     .unit_offset = options_.unit_offset,
                     .reciprocal_deviation = operands[deviation].row_slice(head, 1),
                     .out_gradient = in_place,
                     .input_gradient = in_place,
                     .weight_gradient = operands[is_query ? query_weight_gradient : key_weight_gradient]});
  }
}

}  // namespace strata
