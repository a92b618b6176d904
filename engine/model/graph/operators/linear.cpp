#include "engine/model/graph/operators/linear.h"

#include <utility>

#include "engine/device/elementwise_calls.h"
#include "engine/device/product_calls.h"
#include "engine/model/graph/derivation.h"
#include "engine/model/graph/operators/activation.h"

namespace strata {
namespace {

/// A multiply-add for each weight and row.
double product_flops(const Matrix& rows, const Matrix& weight) {
  return 2 * static_cast<double>(rows.rows) * static_cast<double>(weight.rows) *
         static_cast<double>(weight.columns);
}

bool is_one_place(const Matrix& addend, const Matrix& out) {
  return addend && addend.data == out.data;
}

void give_input_gradient(Derivation& derivation, const TensorView& x,
                         const std::shared_ptr<const LinearInputGradientRule>& rule,
                         const TensorView& out_gradient, const TensorView& weight) {
  if (derivation.fuses_products()) {
    derivation.give(x, [&](const TensorView& to, const TensorView& addend) {
      derivation.add(rule, {out_gradient, weight, addend, to});
    });
  } else {
    derivation.give(x, [&](const TensorView& to) { derivation.add(rule, {out_gradient, weight, {}, to}); });
  }
}

}  // namespace

void LinearRule::run(Kernels& kernels, const Operands& operands) const {
  const bool is_in_place = is_one_place(operands[addend], operands[out]);
  kernels.run(Product{.a = operands[x],
                      .b = operands[weight],
                      .transpose_b = order_ == WeightOrder::linear,
                      .out = operands[out],
                      .accumulate = is_in_place,
                      .bias = operands[bias],
                      .addend = is_in_place ? Matrix() : operands[addend],
                      .rounding = rounding_});
}

double LinearRule::flops(const Operands& operands) const {
  return product_flops(operands[x], operands[weight]);
}

void LinearRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView out_gradient = derivation.gradient(node[out]);
  if (!out_gradient) return;
  if (derivation.wants(node[weight]))
    derivation.add(std::make_shared<LinearWeightGradientRule>(order_, rounding_),
                   {node[x], out_gradient, derivation.parameter_gradient(node[weight])});
  if (derivation.wants(node[bias]))
    derivation.add(std::make_shared<BiasGradientRule>(),
                   {out_gradient, derivation.parameter_gradient(node[bias])});
  give_input_gradient(derivation, node[x], std::make_shared<LinearInputGradientRule>(order_, rounding_),
                      out_gradient, node[weight]);
  derivation.pass(node[addend], out_gradient);
}

std::optional<Node> LinearRule::fuse_next(const UnitGraph& graph, const Node& node, const Node& next) const {
  const TensorView& product = node[out];
  if (node[addend] || readers(graph, product.tensor) != 1) return {};
  const FusionForm form = next.rule->fusion_form();
  if (form.sum) {
    const bool is_first = next[form.sum->a] == product;
    if (!is_first && next[form.sum->b] != product) return {};
    Node fused = node;
    fused[addend] = next[is_first ? form.sum->b : form.sum->a];
    fused[out] = next[form.sum->out];
    return fused;
  }
  if (!form.activation) return {};
  const auto [kind, is_gated, activated, activation] = *form.activation;
  if (is_gated || next[activated] != product || !LinearActivationRule::can_apply(kind)) return {};
  return Node{std::make_shared<LinearActivationRule>(order_, rounding_, kind),
              {node[x], node[weight], node[bias], product, next[activation]}};
}

void LinearUpdateRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(Product{.a = operands[x],
                      .b = operands[weight],
                      .transpose_b = true,
                      .out = operands[out],
                      .accumulate = true});
}

double LinearUpdateRule::flops(const Operands& operands) const {
  return product_flops(operands[x], operands[weight]);
}

/// The gradient of what was in `out` before is that of what is there now.
void LinearUpdateRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView out_gradient = derivation.gradient(node[out]);
  if (!out_gradient) return;
  if (derivation.wants(node[weight]))
    derivation.add(std::make_shared<LinearWeightGradientRule>(WeightOrder::linear),
                   {node[x], out_gradient, derivation.parameter_gradient(node[weight])});
  give_input_gradient(derivation, node[x], std::make_shared<LinearInputGradientRule>(WeightOrder::linear),
                      out_gradient, node[weight]);
}

/// Without a gradient to multiply it is the addend: of ranks that make a sum together one has the product.
void LinearInputGradientRule::run(Kernels& kernels, const Operands& operands) const {
  const bool is_in_place = is_one_place(operands[addend], operands[x_gradient]);
  if (!operands[out_gradient]) {
    if (!is_in_place) kernels.run(Cast{operands[addend], operands[x_gradient]});
    return;
  }
  kernels.run(Product{.a = operands[out_gradient],
                      .b = operands[weight],
                      .transpose_b = order_ == WeightOrder::conv1d,
                      .out = operands[x_gradient],
                      .accumulate = is_in_place,
                      .addend = is_in_place ? Matrix() : operands[addend],
                      .rounding = rounding_});
}

double LinearInputGradientRule::flops(const Operands& operands) const {
  return product_flops(operands[out_gradient], operands[weight]);
}

void LinearWeightGradientRule::run(Kernels& kernels, const Operands& operands) const {
  const bool is_linear = order_ == WeightOrder::linear;
  kernels.run(Product{.a = operands[is_linear ? out_gradient : x],
                      .transpose_a = true,
                      .b = operands[is_linear ? x : out_gradient],
                      .out = operands[weight_gradient],
                      .accumulate = !operands.overwrites(weight_gradient),
                      .rounding = rounding_});
}

double LinearWeightGradientRule::flops(const Operands& operands) const {
  return product_flops(operands[x], operands[weight_gradient]);
}

void BiasGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(ColumnSum{operands[out_gradient], operands[bias_gradient]});
}

}  // namespace strata
