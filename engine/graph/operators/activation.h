// Activations between the matrices of an MLP.
#pragma once

#include "engine/graph/operator.h"

namespace strata {

/// out = gelu(x), or, if gated, silu(gate) · up for x = [gate | up].
class ActivationRule final : public Operator {
 public:
  enum : int { x, out };

  explicit ActivationRule(bool gated) : gated_(gated) {}

  std::string_view name() const override { return gated_ ? "swiglu" : "gelu"; }
  std::vector<Touch> touches() const override { return {Touch::reads, Touch::writes}; }
  std::vector<InPlace> in_place() const override { return {{out, x}}; }
  bool is_cheap() const override { return true; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  bool gated_;
};

class ActivationGradientRule final : public GradientOperator {
 public:
  enum : int { x, out_gradient, x_gradient };

  explicit ActivationGradientRule(bool gated) : gated_(gated) {}

  std::string_view name() const override { return gated_ ? "swiglu_gradient" : "gelu_gradient"; }
  std::vector<Touch> touches() const override { return {Touch::reads, Touch::reads, Touch::writes}; }
  std::vector<InPlace> in_place() const override { return {{x_gradient, out_gradient}, {x_gradient, x}}; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  bool gated_;
};

}  // namespace strata
