// Products with weights.
#pragma once

#include "base/precision.h"
#include "engine/model/graph/operator.h"

namespace strata {

/// out = x · W (+ bias) (+ addend).
class LinearRule final : public Operator {
 public:
  enum : int { x, weight, bias, addend, out };

  explicit LinearRule(WeightOrder order, Rounding rounding = Rounding::none)
      : order_(order), rounding_(rounding) {}

  std::string_view name() const override { return rounding_ == Rounding::none ? "linear" : "linear_e4m3"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::reads, Touch::writes};
  }
  std::string_view axes() const override {
    return order_ == WeightOrder::linear ? "+t k+, n k, +1 n, +t n, +t n" : "+t k+, k n, +1 n, +t n, +t n";
  }
  std::vector<InPlace> in_place() const override { return {{out, addend}}; }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

  std::optional<ProductForm> product_form() const override {
    return ProductForm{.x = x, .weight = weight, .bias = bias, .out = out, .order = order_};
  }
  WeightForm weight_form() const override { return {.operand = weight, .rounding = rounding_}; }
  std::shared_ptr<const Operator> rounded(Rounding rounding) const override {
    return std::make_shared<LinearRule>(order_, rounding);
  }
  void add_low_rank(const Node& node, const LowRankUpdate& update, UnitGraph& graph) const override;
  /// With a sum as its addend, or with an activation in the same kernel.
  std::optional<Node> fuse_next(const UnitGraph& graph, const Node& node, const Node& next) const override;

 private:
  WeightOrder order_;
  Rounding rounding_;  ///< of what all three products multiply
};

/// out += x · Wᵀ, W stored as torch's Linear stores it.
class LinearUpdateRule final : public Operator {
 public:
  enum : int { x, weight, out };

  std::string_view name() const override { return "linear_update"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::updates}; }
  std::string_view axes() const override { return "t k^, n k, t n"; }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
};

/// x_gradient = out_gradient · Wᵀ (+ addend).
class LinearInputGradientRule final : public GradientOperator {
 public:
  enum : int { out_gradient, weight, addend, x_gradient };

  explicit LinearInputGradientRule(WeightOrder order, Rounding rounding = Rounding::none)
      : order_(order), rounding_(rounding) {}

  std::string_view name() const override {
    return rounding_ == Rounding::none ? "linear_input_gradient" : "linear_input_gradient_e4m3";
  }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override {
    return order_ == WeightOrder::linear ? "+t n+, n k, +t k, +t k" : "+t n+, k n, +t k, +t k";
  }
  std::vector<InPlace> in_place() const override { return {{x_gradient, addend}}; }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;

 private:
  WeightOrder order_;
  Rounding rounding_;
};

/// weight_gradient += xᵀ · out_gradient.
class LinearWeightGradientRule final : public GradientOperator {
 public:
  enum : int { x, out_gradient, weight_gradient };

  explicit LinearWeightGradientRule(WeightOrder order, Rounding rounding = Rounding::none)
      : order_(order), rounding_(rounding) {}

  std::string_view name() const override {
    return rounding_ == Rounding::none ? "linear_weight_gradient" : "linear_weight_gradient_e4m3";
  }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::updates}; }
  std::string_view axes() const override {
    return order_ == WeightOrder::linear ? "t+ k, t n, n k" : "t+ k, t n, k n";
  }
  bool can_overwrite(int operand) const override { return operand == weight_gradient; }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;

 private:
  WeightOrder order_;
  Rounding rounding_;
};

/// bias_gradient += sum of the rows of out_gradient.
class BiasGradientRule final : public GradientOperator {
 public:
  enum : int { out_gradient, bias_gradient };

  std::string_view name() const override { return "bias_gradient"; }
  Touches touches() const override { return {Touch::reads, Touch::updates}; }
  std::string_view axes() const override { return "t+ n, 1 n"; }
  void run(Kernels& kernels, const Operands& operands) const override;
};

}  // namespace strata
