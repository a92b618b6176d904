// Activations between the matrices of an MLP.
#pragma once

#include "base/precision.h"
#include "engine/device/activation.h"
#include "engine/model/graph/operators/linear.h"

namespace strata {

/// out = activation(x), or, if gated, activation(gate) · up for x = [gate | up].
class ActivationRule final : public Operator {
 public:
  enum : int { x, out };

  ActivationRule(Activation kind, bool gated) : kind_(kind), gated_(gated) {}

  std::string_view name() const override { return gated_ ? "gated_activation" : "activation"; }
  Touches touches() const override { return {Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return gated_ ? "t c|c, t c" : "t c, t c"; }
  std::vector<InPlace> in_place() const override { return {{out, x}}; }
  bool is_cheap() const override { return true; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  FusionForm fusion_form() const override {
    return {.activation = ActivationForm{.kind = kind_, .is_gated = gated_, .x = x, .out = out}};
  }

 private:
  Activation kind_;
  bool gated_;
};

/// sum = x · W (+ bias), out = activation(sum): a LinearRule and an ActivationRule in one kernel, which may
/// apply the activation to the sum before it is rounded. What backward passes read of `out` is always made
/// again, of the rounded sum, so that no bit depends on what is saved.
class LinearActivationRule final : public Operator {
 public:
  enum : int { x, weight, bias, sum, out };

  /// REQUIRES: can_apply(activation).
  LinearActivationRule(WeightOrder order, Rounding rounding, Activation activation)
      : order_(order), rounding_(rounding), activation_(activation) {}

  /// Other activations are not in products' epilogues.
  static bool can_apply(Activation activation) { return activation == Activation::gelu_tanh; }

  std::string_view name() const override {
    return rounding_ == Rounding::none ? "linear_activation" : "linear_activation_e4m3";
  }
  Touches touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::writes, Touch::writes};
  }
  std::string_view axes() const override {
    return order_ == WeightOrder::linear ? "t k^, n k, 1 n, t n, t n" : "t k^, k n, 1 n, t n, t n";
  }
  /// The activation alone.
  Node again(const Node& node) const override;
  bool again_has_its_bits() const override { return false; }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

  WeightForm weight_form() const override { return {.operand = weight, .rounding = rounding_}; }

 private:
  WeightOrder order_;
  Rounding rounding_;
  Activation activation_;
};

/// The gradient, and, if `out` is given, what ActivationRule makes, again.
class ActivationGradientRule final : public GradientOperator {
 public:
  enum : int { x, out_gradient, x_gradient, out };

  ActivationGradientRule(Activation kind, bool gated) : kind_(kind), gated_(gated) {}

  std::string_view name() const override {
    return gated_ ? "gated_activation_gradient" : "activation_gradient";
  }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::writes, Touch::writes}; }
  std::string_view axes() const override { return gated_ ? "t c|c, t c, t c|c, t c" : "t c, t c, t c, t c"; }
  std::vector<InPlace> in_place() const override {
    return {{x_gradient, out_gradient}, {x_gradient, x}, {out, out_gradient}, {out, x}};
  }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  /// With `out`, if that is what `remade` is.
  std::optional<Node> with_remade(const Node& node, const Node& remade) const override;

 private:
  Activation kind_;
  bool gated_;
};

}  // namespace strata
